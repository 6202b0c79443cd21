#include "dlrm/encode/encoder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "dlrm/core/error.h"
#include "dlrm/core/hash.h"
#include "dlrm/core/printable.h"
#include "dlrm/encode/canonical.h"

namespace dlrm {
namespace {

using Kind = Value::Kind;
using Sparse = Preprocessing::Sparse;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr uint64_t kMissingHex = uint64_t{1} << 32;  // as `dlrm-data criteo` has it

Error problem(const Value& value, const char* what) {
  return usage_error("{} {}", shown(value), what);
}

/// The one value of a field that is no list.
Value single(const Field& field) {
  if (field.listed) throw usage_error("a list; needs one value");
  return field.values.empty() ? Value{} : field.values[0];
}

bool is_nan(const Value& value) { return value.kind == Kind::kNumber && std::isnan(value.number); }

/// The text of a value that is a category; empty if it is missing. `room` may hold it.
std::string_view text_of(const Value& value, std::string& room) {
  switch (value.kind) {
    case Kind::kMissing:
      return {};
    case Kind::kBool:
      return value.integer != 0 ? "true" : "false";
    case Kind::kInteger:
      room = std::to_string(value.integer);
      return room;
    case Kind::kNumber:
      if (std::isnan(value.number)) return {};
      if (!std::isfinite(value.number)) return value.number > 0 ? "inf" : "-inf";
      room = canonical_text(value.number);
      return room;
    case Kind::kText:
      return value.text;
  }
  return {};
}

int64_t hashed(uint64_t key, int64_t rows) {
  return static_cast<int64_t>(mix64(key) % static_cast<uint64_t>(rows));
}

std::string_view bytes_of(const int64_t& number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

bool read_hex(std::string_view text, uint64_t& number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, 16);
  return text.size() <= 8 && error == std::errc() && rest == end && text[0] != '-';
}

}  // namespace

std::string shown(const Value& value) {
  constexpr size_t kMost = 40;
  if (value.kind == Kind::kMissing || is_nan(value)) return "a missing value";
  std::string room;
  const std::string_view text = text_of(value, room);
  return value.kind == Kind::kText ? fmt::format("'{}'", printable(text, kMost))
                                   : std::string(text);
}

Encoder::Encoder(Preprocessing preprocessing) : preprocessing_(std::move(preprocessing)) {}

bool Encoder::is_missing(std::string_view text) const {
  const auto& missing = preprocessing_.missing;
  return std::find(missing.begin(), missing.end(), text) != missing.end();
}

double Encoder::number_of(const Value& value) const {
  switch (value.kind) {
    case Kind::kMissing:
      return kNaN;
    case Kind::kBool:
    case Kind::kInteger:
      return static_cast<double>(value.integer);
    case Kind::kNumber:
      return value.number;
    case Kind::kText:
      break;
  }
  const std::string_view text = trimmed(value.text);
  if (is_missing(text)) return kNaN;
  double number = 0;
  if (!read_number(text, number)) throw problem(value, "is not a number");
  return number;
}

float Encoder::dense(size_t column, const Field& field) const {
  const Preprocessing::Dense& dense = preprocessing_.dense[column];
  const Value value = single(field);
  double number = number_of(value);
  if (std::isnan(number)) {
    if (!dense.fill) throw usage_error("is missing, and the schema has no `fill` for it");
    number = *dense.fill;
  }
  number = std::min(std::max(number, dense.least), dense.most);
  if (!std::isfinite(number)) throw problem(value, "is not finite");
  if (dense.log) number = std::log1p(std::max(number, 0.0));
  if (dense.mean) number = (number - *dense.mean) / dense.deviation;
  const auto result = static_cast<float>(number);
  if (!std::isfinite(result)) throw problem(value, "is too large");
  return result;
}

void Encoder::append_ids(size_t feature, const Field& field, std::vector<int64_t>& ids) const {
  const Sparse& sparse = preprocessing_.sparse[feature];
  if (sparse.list) return append_list(sparse, field, ids);
  ids.push_back(id_of(sparse, single(field), /*in_list=*/false));
}

void Encoder::append_list(const Sparse& feature, const Field& field,
                          std::vector<int64_t>& ids) const {
  const Preprocessing::List& list = *feature.list;
  std::vector<Value> items;
  if (field.listed) {
    items.assign(field.values.begin(), field.values.end());
  } else if (!field.values.empty()) {
    const Value& value = field.values[0];
    if (value.kind == Kind::kText && !list.separator)
      throw problem(value, "is a text; needs a list");
    if (value.kind != Kind::kText) {
      if (value.kind != Kind::kMissing && !is_nan(value)) items.push_back(value);
    } else {
      std::string_view text = value.text;
      for (bool more = true; more;) {
        const size_t end = text.find(*list.separator);
        more = end != std::string_view::npos;
        const std::string_view item = text.substr(0, end);
        if (!trimmed(item).empty()) items.push_back({Kind::kText, 0, 0, item});
        if (more) text.remove_prefix(end + list.separator->size());
      }
    }
  }
  const auto kept = std::min<size_t>(items.size(), static_cast<size_t>(list.cap));
  const size_t begin = list.keeps_last ? items.size() - kept : 0;
  for (size_t i = begin; i < begin + kept; ++i) ids.push_back(id_of(feature, items[i], true));
}

int64_t Encoder::id_of(const Sparse& feature, const Value& value, bool in_list) const {
  if (feature.values == Preprocessing::Values::kInteger) return id_of_integer(feature, value);
  std::string room, other;
  std::string_view key = text_of(value, room);
  const bool hex = feature.values == Preprocessing::Values::kHex;
  if (!hex) key = canonical_text(key, other);
  if (key.empty() && feature.fill && !in_list) key = *feature.fill;
  if (!hex) {
    if (feature.encoding == Preprocessing::Encoding::kDictionary) return looked_up(feature, key);
    return hashed(crc32(key.data(), key.size()), feature.rows);
  }
  uint64_t number = kMissingHex;
  if (!key.empty() && !read_hex(key, number)) {
    throw problem(value, "is not of up to 8 hexadecimal digits");
  }
  if (feature.encoding == Preprocessing::Encoding::kHash) return hashed(number, feature.rows);
  return looked_up(feature, bytes_of(static_cast<int64_t>(number)));
}

int64_t Encoder::id_of_integer(const Sparse& feature, const Value& value) const {
  int64_t number = value.integer;
  bool missing = value.kind == Kind::kMissing || is_nan(value);
  if (value.kind == Kind::kText) {
    const std::string_view text = trimmed(value.text);
    missing = is_missing(text);
    if (!missing && !read_integer(text, number)) throw problem(value, "is not a whole number");
  } else if (value.kind == Kind::kNumber && !missing) {
    if (std::floor(value.number) != value.number || std::abs(value.number) >= 0x1p63) {
      throw problem(value, "is not a whole number");
    }
    number = static_cast<int64_t>(value.number);
  }
  if (missing) {
    if (!feature.fill_integer) {
      throw usage_error("is missing, and the schema has no `fill` for it");
    }
    number = *feature.fill_integer;
  }
  switch (feature.encoding) {
    case Preprocessing::Encoding::kHash:
      return hashed(static_cast<uint64_t>(number), feature.rows);
    case Preprocessing::Encoding::kDictionary:
      return looked_up(feature, bytes_of(number));
    case Preprocessing::Encoding::kIntegers:
      break;
  }
  if (number < 0 || number >= feature.rows) {
    throw usage_error("{} is not from 0 to {}", number, feature.rows - 1);
  }
  return number;
}

int64_t Encoder::looked_up(const Sparse& feature, std::string_view key) const {
  return preprocessing_.dictionaries[feature.dictionary].values.find(key) + 1;
}

}  // namespace dlrm
