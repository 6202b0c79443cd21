#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

#include "dlrm/core/hash.h"

namespace dlrm {

/// The bytes of a text of at most 16 bytes, as two words.
struct ShortText {
  static constexpr size_t kMost = 16;
  uint64_t first = 0, last = 0;

  explicit ShortText(std::string_view text) {
    const char* const data = text.data();
    const size_t size = text.size();
    if (size >= 8) {
      first = load<uint64_t>(data);
      last = load<uint64_t>(data + size - 8);
    } else if (size >= 4) {
      first = load<uint32_t>(data);
      last = load<uint32_t>(data + size - 4);
    } else if (size > 0) {
      first = load<uint8_t>(data) | load<uint8_t>(data + size / 2) << 8 |
              load<uint8_t>(data + size - 1) << 16;
    }
  }

  template <class T>
  static T load(const char* at) {
    T value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
};

inline uint64_t hash_text(std::string_view text) {
  if (text.size() > ShortText::kMost) return hash_bytes(text.data(), text.size());
  const ShortText bytes(text);
  return mix64(bytes.first ^ (bytes.last * 0x9e3779b97f4a7c15u + text.size()));
}

inline bool same_text(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  if (a.size() > ShortText::kMost) return std::memcmp(a.data(), b.data(), a.size()) == 0;
  const ShortText left(a), right(b);
  return left.first == right.first && left.last == right.last;
}

}  // namespace dlrm
