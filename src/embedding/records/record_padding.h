#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "embedding/tiers/slot_records.h"

namespace dlrm {

/// How records lie in memory of which kernels copy units of up to 16 bytes: array after array, each
/// with the padding of its slots, aligned to 16 bytes.
class RecordPadding {
 public:
  static constexpr int64_t kAlign = 16;
  static int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

  explicit RecordPadding(const SlotRecords& records);
  /// Records of `bytes` without padding.
  explicit RecordPadding(int64_t bytes) : parts_{{0, bytes, 0, bytes}}, bytes_(bytes) {}

  /// An array of a record.
  struct Part {
    int64_t from = 0;  ///< first byte in a record without padding
    int64_t bytes = 0;
    int64_t at = 0;      ///< first byte in a padded record
    int64_t padded = 0;  ///< bytes
  };
  const std::vector<Part>& parts() const { return parts_; }
  /// From one padded record to the next.
  int64_t bytes() const { return bytes_; }
  void pack(const std::byte* record, std::byte* padded) const;
  void unpack(const std::byte* padded, std::byte* record) const;

 private:
  std::vector<Part> parts_;
  int64_t bytes_ = 0;
};

}  // namespace dlrm
