#include "dlrm/ops/slot_copies.h"

#include <algorithm>

#include "dlrm/device/cuda/runtime.h"

#include "cuda/device_lists.h"
#include "kernels/copy_records.h"

namespace dlrm {
namespace {

class CudaSlotCopies final : public SlotCopies {
 public:
  CudaSlotCopies(Device& device, Stream& stream)
      : native_(cuda::native(stream)), lists_(device, stream) {}

  void to_slots(View<const SlotArray> arrays, const SlotBlock& block) override {
    copy(arrays, block, true);
  }
  void from_slots(View<const SlotArray> arrays, const SlotBlock& block) override {
    copy(arrays, block, false);
  }

 private:
  void copy(View<const SlotArray> arrays, const SlotBlock& block, bool to_slots) {
    fields_.clear();
    int64_t units = 0;
    for (const SlotArray& array : arrays) {
      constexpr int64_t kLargestUnit = 16;
      const int64_t unit = std::min(array.stride, kLargestUnit);
      fields_.push_back({static_cast<char*>(array.slots), array.stride, array.at, units, unit});
      units += array.stride / unit;
    }
    kernels::copy_records(
        lists_.of(fields_), static_cast<int>(fields_.size()), units,
        {static_cast<char*>(block.records), block.slots, block.count, block.stride, block.numbers},
        to_slots, native_);
  }

  cudaStream_t native_;
  DeviceLists lists_;
  std::vector<kernels::RecordField> fields_;
};

}  // namespace

std::unique_ptr<SlotCopies> make_slot_copies(Device& device, Stream& stream) {
  return std::make_unique<CudaSlotCopies>(device, stream);
}

}  // namespace dlrm
