#pragma once
#include <cstddef>
#include <cstdint>

namespace dlrm {

/// CRC-32C (Castagnoli; RFC 3720) of bytes that are passed in parts.
class Crc32c {
 public:
  void add(const void* data, size_t bytes);
  /// Continues with `bytes` bytes of which only the CRC is known.
  void append(const Crc32c& crc, int64_t bytes);
  uint32_t value() const { return ~state_; }

 private:
  uint32_t state_ = 0xffffffffu;
};

}  // namespace dlrm
