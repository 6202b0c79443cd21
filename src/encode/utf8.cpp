#include "dlrm/encode/utf8.h"

#include <cstdint>
#include <cstring>

namespace dlrm {
namespace {

bool continues(uint8_t byte) { return (byte & 0xc0) == 0x80; }

/// The bytes of the character at `at`, of which `left` follow; 0 if there is none.
size_t character(const uint8_t* at, size_t left) {
  const uint8_t first = at[0];
  if (first < 0x80) return 1;
  if (first < 0xc2 || left < 2 || !continues(at[1])) return 0;
  if (first < 0xe0) return 2;
  if (left < 3 || !continues(at[2])) return 0;
  if (first < 0xf0) {
    const bool overlong = first == 0xe0 && at[1] < 0xa0;
    const bool surrogate = first == 0xed && at[1] >= 0xa0;
    return overlong || surrogate ? 0 : 3;
  }
  if (first > 0xf4 || left < 4 || !continues(at[3])) return 0;
  const bool overlong = first == 0xf0 && at[1] < 0x90;
  const bool beyond = first == 0xf4 && at[1] >= 0x90;
  return overlong || beyond ? 0 : 4;
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  const auto* at = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t left = bytes.size();
  while (left > 0) {
    uint64_t eight = 0;
    if (left >= 8) std::memcpy(&eight, at, 8);
    size_t size = 8;
    if (left < 8 || (eight & 0x8080808080808080u) != 0) size = character(at, left);
    if (size == 0) return false;
    at += size;
    left -= size;
  }
  return true;
}

}  // namespace dlrm
