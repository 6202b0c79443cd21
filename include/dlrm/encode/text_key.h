#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

#include "dlrm/core/hash.h"

namespace dlrm {

/// What a text is found by: all of its bytes if there are at most 16, otherwise a hash of them.
struct TextKey {
  static constexpr size_t kMost = 16;

  uint64_t first = 0, last = 0;
  uint32_t size = 0;

  TextKey() = default;
  explicit TextKey(std::string_view text) : size(static_cast<uint32_t>(text.size())) {
    const char* const data = text.data();
    if (size > kMost) {
      first = hash_bytes(data, size);
    } else if (size >= 8) {
      first = load<uint64_t>(data);
      last = load<uint64_t>(data + size - 8);
    } else if (size >= 4) {
      first = load<uint32_t>(data);
      last = load<uint32_t>(data + size - 4);
    } else if (size > 0) {
      first = load<uint8_t>(data);
      last = load<uint8_t>(data + size / 2) << 8 | load<uint8_t>(data + size - 1);
    }
  }

  bool operator==(const TextKey&) const = default;
  /// Texts with equal keys are equal.
  bool whole() const { return size <= kMost; }
  uint64_t hash() const {
    return whole() ? mix64(first ^ (last * 0x9e3779b97f4a7c15u + size)) : first;
  }

 private:
  template <class T>
  static T load(const char* at) {
    T value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
};

}  // namespace dlrm
