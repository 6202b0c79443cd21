#pragma once
// Copies records between the slots of a cached tier and other memory. See SlotCopies.
#include <cstdint>

#include <cuda_runtime.h>

namespace dlrm::kernels {

/// One array of a record. A unit is 2, 4, 8 or 16 bytes. Both sides are aligned to it.
struct RecordField {
  char* slots;
  int64_t stride;      ///< bytes from slot to slot
  int64_t at;          ///< first byte in a record
  int64_t first_unit;  ///< units of the preceding fields
  int64_t unit;        ///< bytes
};

/// Records, `stride` bytes apart, and the slot of each. They are in memory of the device, or in
/// pinned memory of the host.
struct RecordBlock {
  char* records;
  const int32_t* slots;
  int64_t count;
  int64_t stride;
  const int64_t* numbers;  ///< of the records [count]; null: 0, 1, 2, ...
};

/// Copies all fields [count], `units` in total, to the slots of the records, or from them.
void copy_records(const RecordField* fields, int count, int64_t units, const RecordBlock& block,
                  bool to_slots, cudaStream_t stream);

}  // namespace dlrm::kernels
