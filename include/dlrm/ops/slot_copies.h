#pragma once
// Copies of records between the slots of a cached tier, which are in a device's memory, and memory
// of the device or pinned memory of the host.
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

/// Records, `stride` bytes apart. Record numbers[i] belongs to slot slots[i], or record i if
/// `numbers` is null. No slot and no record occurs twice. The lists are in the device's memory.
struct SlotBlock {
  void* records = nullptr;
  const int32_t* slots = nullptr;
  int64_t count = 0;
  int64_t stride = 0;  ///< a multiple of 16, or 8 if its one array has slots of 8 bytes
  const int64_t* numbers = nullptr;
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
