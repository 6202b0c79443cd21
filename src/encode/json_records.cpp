#include "dlrm/encode/json_records.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"
#include "dlrm/core/printable.h"

namespace dlrm {
namespace {

using nlohmann::json;

constexpr const char* kExample = R"({"records": [{"user": "u17"}]})";

/// What nlohmann's parser tells of a text, one call a token. It stands in one place of the text at
/// a time: in the body, in its list of records, in a record, or in a list of one field.
class Reader : public nlohmann::json_sax<json> {
 public:
  /// `shared` is null if the text is a record. There may be so many records.
  Reader(const Columns& columns, Records& records, Records* shared, int64_t most)
      : columns_(columns), records_(records), shared_(shared), most_(most) {}

  bool has_records() const { return has_records_; }
  bool has_shared() const { return has_shared_; }

  bool null() override { return value({}); }
  bool boolean(bool value) override {
    return this->value({Value::Kind::kBool, value ? 1 : 0, 0, {}});
  }
  bool number_integer(number_integer_t number) override {
    return value({Value::Kind::kInteger, number, 0, {}});
  }
  bool number_unsigned(number_unsigned_t number) override {
    if (number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return value({Value::Kind::kInteger, static_cast<int64_t>(number), 0, {}});
    }
    return value({Value::Kind::kText, 0, 0, std::to_string(number)});
  }
  bool number_float(number_float_t number, const string_t& digits) override {
    if (digits.find_first_of(".eE") == std::string::npos) {  // whole, but beyond 64 bits
      return value({Value::Kind::kText, 0, 0, digits});
    }
    return value({Value::Kind::kNumber, 0, number, {}});
  }
  bool string(string_t& text) override { return value({Value::Kind::kText, 0, 0, text}); }
  bool binary(binary_t&) override { return false; }  // not of JSON

  bool start_object(size_t) override {
    if (skipped_ > 0 || skips_) return ++skipped_, true;
    switch (place_) {
      case Place::kStart:
        if (shared_) return enter(Place::kBody);
        return begin_record();
      case Place::kBody:
        if (key_ != "shared") throw wrong("an object; needs a list of records");
        into_ = shared_;
        has_shared_ = true;
        return begin_record();
      case Place::kRecords:
        return begin_record();
      default:
        throw wrong("an object; needs a text, a number or a list of them");
    }
  }
  bool end_object() override {
    if (skipped_ > 0) return leave_skipped();
    if (place_ == Place::kBody) return enter(Place::kEnd);
    done_ += into_ == &records_;
    place_ = !shared_ ? Place::kEnd : into_ == shared_ ? Place::kBody : Place::kRecords;
    into_ = &records_;
    return true;
  }
  bool start_array(size_t) override {
    if (skipped_ > 0 || skips_) return ++skipped_, true;
    if (place_ == Place::kBody && key_ == "records") {
      has_records_ = true;
      return enter(Place::kRecords);
    }
    if (place_ != Place::kRecord) {
      throw wrong(place_ == Place::kList ? "a list in a list; needs texts or numbers"
                                         : "a list; needs an object");
    }
    begin_field(true);
    return enter(Place::kList);
  }
  bool end_array() override {
    if (skipped_ > 0) return leave_skipped();
    return enter(place_ == Place::kList ? Place::kRecord : Place::kBody);
  }
  bool key(string_t& name) override {
    if (skipped_ > 0) return true;
    key_ = name;
    if (place_ == Place::kBody) {
      if (name != "records" && name != "shared") {
        throw usage_error("unknown key '{}'; needs an object such as {}", printable(name, 60),
                          kExample);
      }
      if (name == "records" ? has_records_ : has_shared_) {
        throw usage_error("{} is there twice", name);
      }
      return true;
    }
    column_ = columns_.find(name);
    skips_ = column_ < 0;
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    if (error.id / 100 != 1) throw usage_error("not JSON: a number is out of range");
    throw usage_error("not JSON: error at byte {}", position);
  }

 private:
  enum class Place : uint8_t { kStart, kBody, kRecords, kRecord, kList, kEnd };

  bool enter(Place place) {
    place_ = place;
    return true;
  }
  bool leave_skipped() {
    if (--skipped_ == 0) skips_ = false;
    return true;
  }
  bool begin_record() {
    if (into_ == &records_ && std::ssize(records_) == most_) {
      throw usage_error("a request has at most {} samples", most_);
    }
    into_->begin_record();
    return enter(Place::kRecord);
  }
  void begin_field(bool listed) {
    if (!into_->begin_field(static_cast<size_t>(column_), listed)) throw wrong("is there twice");
  }
  bool value(Value value) {
    if (skipped_ > 0) return true;
    if (skips_) {
      skips_ = false;
      return true;
    }
    if (place_ == Place::kRecord) begin_field(false);
    if (place_ != Place::kRecord && place_ != Place::kList) {
      throw wrong(fmt::format(
          "{}; needs {}", shown(value),
          place_ == Place::kBody && key_ == "records" ? "a list of records" : "an object"));
    }
    into_->add(value);
    return true;
  }
  /// An error that names the place.
  Error wrong(const std::string& what) const {
    std::string where;
    if (shared_ && place_ == Place::kBody) where = key_;
    if (place_ == Place::kRecords) where = fmt::format("records[{}]", done_);
    if (place_ == Place::kRecord || place_ == Place::kList) {
      if (shared_) where = into_ == shared_ ? "shared." : fmt::format("records[{}].", done_);
      where += printable(key_, 60);
    }
    return where.empty() ? usage_error("{}", what) : usage_error("{}: {}", where, what);
  }

  const Columns& columns_;
  Records& records_;
  Records* into_ = &records_;
  Records* const shared_;
  const int64_t most_;
  bool has_records_ = false, has_shared_ = false;
  Place place_ = Place::kStart;
  std::string key_;
  int32_t column_ = -1;
  bool skips_ = false;  // the value of the last key
  size_t skipped_ = 0;  // depth within such a value
  size_t done_ = 0;     // records
};

}  // namespace

Columns::Columns(const Preprocessing& preprocessing, const std::vector<std::string>& more) {
  for (const auto& dense : preprocessing.dense) dense_.push_back(add(dense.column));
  for (const auto& sparse : preprocessing.sparse) sparse_.push_back(add(sparse.column));
  for (const std::string& name : more) add(name);
}

size_t Columns::add(const std::string& name) {
  return static_cast<size_t>(
      place_.emplace(name, static_cast<int32_t>(place_.size())).first->second);
}

int32_t Columns::find(std::string_view name) const {
  const auto found = place_.find(name);
  return found == place_.end() ? -1 : found->second;
}

bool Columns::is_number(std::string_view name) const {
  const auto among = [&](const std::vector<size_t>& places) {
    return std::ranges::find(places, static_cast<size_t>(find(name))) != places.end();
  };
  return among(dense_) && !among(sparse_);
}

Field Records::field(size_t record, size_t column) const {
  const Place& at = place(record, column);
  return {at.listed, View<const Value>(values_).subspan(at.begin, at.count)};
}

bool Records::begin_field(size_t column, bool listed) {
  last_ = fields_.size() - columns_ + column;
  Place& at = fields_[last_];
  if (at.there) return false;
  at = {static_cast<uint32_t>(values_.size()), 0, listed, true};
  return true;
}

void Records::reserve_text(size_t bytes) {
  texts_.push_back(std::make_unique_for_overwrite<char[]>(bytes));
  text_ = texts_.back().get();
  text_left_ = bytes;
}

void Records::add(Value value) {
  if (value.kind == Value::Kind::kText) {
    const size_t size = value.text.size();
    DLRM_CHECK(size <= text_left_, "no room for a text of {} bytes", size);
    if (size > 0) std::memcpy(text_, value.text.data(), size);
    value.text = {text_, size};
    text_ += size;
    text_left_ -= size;
  }
  values_.push_back(value);
  ++fields_[last_].count;
}

SharedRecords read_records(std::string_view text, const Columns& columns, int64_t most) {
  SharedRecords result{Records(columns.size()), Records(columns.size())};
  result.records.reserve_text(text.size());
  result.shared.reserve_text(text.size());
  Reader reader(columns, result.records, &result.shared, most);
  json::sax_parse(text, &reader);
  if (!reader.has_records()) throw usage_error("needs an object such as {}", kExample);
  return result;
}

std::string json_text(const Field& field) {
  const auto text_of = [](const Value& value) -> std::string {
    switch (value.kind) {
      case Value::Kind::kMissing:
        return "null";
      case Value::Kind::kBool:
        return value.integer != 0 ? "true" : "false";
      case Value::Kind::kInteger:
        return std::to_string(value.integer);
      case Value::Kind::kNumber:
        if (std::isnan(value.number)) return "null";
        // JSON has no infinity.
        if (std::isinf(value.number)) return value.number > 0 ? R"("inf")" : R"("-inf")";
        return value.single ? fmt::format("{}", static_cast<float>(value.number))
                            : fmt::format("{}", value.number);
      case Value::Kind::kText:
        break;
    }
    return json(value.text).dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  };
  if (!field.listed) return text_of(field.values.empty() ? Value{} : field.values[0]);
  std::string text;
  for (const Value& value : field.values) text += (text.empty() ? "" : ", ") + text_of(value);
  return "[" + text + "]";
}

void append_record(std::string_view text, const Columns& columns, Records& records) {
  records.reserve_text(text.size());
  const size_t before = records.size();
  try {
    Reader reader(columns, records, nullptr, std::numeric_limits<int64_t>::max());
    json::sax_parse(text, &reader);
  } catch (...) {
    if (records.size() > before) records.drop_record();
    throw;
  }
}

}  // namespace dlrm
