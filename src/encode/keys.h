#pragma once
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "dlrm/core/hash.h"
#include "dlrm/encode/encoder.h"

namespace dlrm {

/// What the id of a value depends on: a text, or a number of integers and hexadecimal digits.
struct Encoder::Key {
  std::string_view text;
  int64_t number = 0;

  static bool is_text(const Preprocessing::Sparse& feature) {
    return feature.values == Preprocessing::Values::kText;
  }
  /// As a dictionary has it.
  std::string_view bytes(const Preprocessing::Sparse& feature) const {
    if (is_text(feature)) return text;
    return {reinterpret_cast<const char*>(&number), sizeof(number)};
  }
  uint64_t hash(const Preprocessing::Sparse& feature) const {
    return is_text(feature) ? crc32(text.data(), text.size()) : static_cast<uint64_t>(number);
  }
};

/// Appends the items of a value that is no list: those of a text, or the value itself, if it is not
/// missing. A usage_error says that a text has no separator.
void append_items(const Preprocessing::List& list, const Value& value, std::vector<Value>& items);

/// The first and the end of the items that a list of so many keeps.
std::pair<size_t, size_t> kept_items(const Preprocessing::List& list, size_t count);

}  // namespace dlrm
