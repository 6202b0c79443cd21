#pragma once
// Copies of records between the slots of a cached tier and a block, both in a device's memory.
#include <cstdint>
#include <memory>

#include "dlrm/core/view.h"
#include "dlrm/device/device.h"

namespace dlrm {

/// An array of slots, and the place of its rows in a record of the block.
struct SlotArray {
  void* slots = nullptr;
  int64_t stride = 0;  ///< bytes from slot to slot: 2, 4, 8 or a multiple of 16
  int64_t at = 0;      ///< first byte in a record, a multiple of 16
};

/// A block of records, `stride` bytes apart. Record i belongs to slot slots[i]. No slot occurs
/// twice.
struct SlotBlock {
  void* records = nullptr;
  const int32_t* slots = nullptr;
  int64_t count = 0;
  int64_t stride = 0;  ///< a multiple of 16
};

/// Queues copies on one stream. Records are copied with the padding between slots.
class SlotCopies {
 public:
  virtual ~SlotCopies() = default;
  virtual void to_slots(View<const SlotArray> arrays, const SlotBlock& block) = 0;
  virtual void from_slots(View<const SlotArray> arrays, const SlotBlock& block) = 0;
};

/// For a GPU.
std::unique_ptr<SlotCopies> make_slot_copies(Device& device, Stream& stream);

}  // namespace dlrm
