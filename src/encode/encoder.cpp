#include "dlrm/encode/encoder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "dlrm/core/error.h"
#include "dlrm/core/printable.h"
#include "dlrm/encode/canonical.h"

#include "keys.h"

namespace dlrm {
namespace {

using Kind = Value::Kind;
using Sparse = Preprocessing::Sparse;
using Encoding = Preprocessing::Encoding;

constexpr double kMissingNumber = std::numeric_limits<double>::quiet_NaN();
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
      room = value.single ? canonical_text(static_cast<float>(value.number))
                          : canonical_text(value.number);
      return room;
    case Kind::kText:
      return value.text;
  }
  return {};
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
      return kMissingNumber;
    case Kind::kBool:
    case Kind::kInteger:
      return static_cast<double>(value.integer);
    case Kind::kNumber:
      return value.number;
    case Kind::kText:
      break;
  }
  const std::string_view text = trimmed(value.text);
  if (is_missing(text)) return kMissingNumber;
  double number = 0;
  if (!read_number(text, number)) throw problem(value, "is not a number");
  return number;
}

double Encoder::scaled(const Preprocessing::Dense& dense, double number, const Value& value) const {
  if (std::isnan(number)) {
    if (!dense.fill) throw usage_error("is missing, and the schema has no `fill` for it");
    number = *dense.fill;
  }
  number = std::min(std::max(number, dense.least), dense.most);
  if (!std::isfinite(number)) throw problem(value, "is not finite");
  return dense.log ? std::log1p(std::max(number, 0.0)) : number;
}

float Encoder::finished(const Preprocessing::Dense& dense, double number,
                        const Value& value) const {
  if (dense.mean) number = (number - *dense.mean) / dense.deviation;
  const auto result = static_cast<float>(number);
  if (!std::isfinite(result)) throw problem(value, "is too large");
  return result;
}

float Encoder::dense(size_t column, const Field& field) const {
  const Preprocessing::Dense& dense = preprocessing_.dense[column];
  const Value value = single(field);
  return finished(dense, scaled(dense, number_of(value), value), value);
}

void Encoder::append_ids(size_t feature, const Field& field, std::vector<int64_t>& ids) const {
  const Sparse& sparse = preprocessing_.sparse[feature];
  std::string room;
  if (!sparse.list) {
    ids.push_back(id_of(sparse, key_of(sparse, single(field), /*in_list=*/false, room)));
    return;
  }
  std::vector<Value> items;
  View<const Value> all = field.values;
  if (!field.listed && !field.values.empty()) {
    append_items(*sparse.list, field.values[0], items);
    all = items;
  }
  const auto [begin, end] = kept_items(*sparse.list, all.size());
  for (size_t i = begin; i < end; ++i) {
    ids.push_back(id_of(sparse, key_of(sparse, all[i], /*in_list=*/true, room)));
  }
}

void Encoder::prefetch(size_t feature, const Field& field, bool at_place) const {
  const Sparse& sparse = preprocessing_.sparse[feature];
  if (sparse.encoding != Encoding::kDictionary || !Key::is_text(sparse)) return;
  const TextTable& table = preprocessing_.dictionaries[sparse.dictionary].values;
  for (const Value& value : field.values) {
    if (value.kind == Kind::kText) table.prefetch(value.text, at_place);
  }
}

Encoder::Key Encoder::key_of(const Sparse& feature, const Value& value, bool in_list,
                             std::string& room) const {
  if (feature.values == Preprocessing::Values::kInteger) return {{}, whole_number(feature, value)};
  std::string_view text = text_of(value, room);
  const bool hex = feature.values == Preprocessing::Values::kHex;
  if (!hex && value.kind == Kind::kText) text = canonical_text(text, room);
  if (text.empty() && feature.fill && !in_list) text = *feature.fill;
  if (!hex) return {text, 0};
  uint64_t number = kMissingHex;
  if (!text.empty() && !read_hex(text, number)) {
    throw problem(value, "is not of up to 8 hexadecimal digits");
  }
  return {{}, static_cast<int64_t>(number)};
}

int64_t Encoder::whole_number(const Sparse& feature, const Value& value) const {
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
  if (feature.encoding == Encoding::kIntegers && (number < 0 || number >= feature.rows)) {
    throw usage_error("{} is not from 0 to {}", number, feature.rows - 1);
  }
  return number;
}

int64_t Encoder::id_of(const Sparse& feature, const Key& key) const {
  switch (feature.encoding) {
    case Encoding::kDictionary:
      return preprocessing_.dictionaries[feature.dictionary].values.find(key.bytes(feature)) + 1;
    case Encoding::kHash:
      return static_cast<int64_t>(mix64(key.hash(feature)) % static_cast<uint64_t>(feature.rows));
    case Encoding::kIntegers:
      break;
  }
  return key.number;
}

}  // namespace dlrm
