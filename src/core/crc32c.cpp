#include "dlrm/core/crc32c.h"

#include <algorithm>

#include <isa-l/crc.h>

namespace dlrm {

void Crc32c::add(const void* data, size_t bytes) {
  // The library takes an int count and a non-const pointer. It only reads.
  constexpr size_t kMost = size_t{1} << 30;
  auto* at = const_cast<unsigned char*>(static_cast<const unsigned char*>(data));
  while (bytes > 0) {
    const size_t part = std::min(bytes, kMost);
    state_ = crc32_iscsi(at, static_cast<int>(part), state_);
    at += part;
    bytes -= part;
  }
}

}  // namespace dlrm
