// Copies records to slots of a cached tier, or back. A thread copies one unit of one record.
// Neighbouring threads copy neighbouring units.
// Bytes per record: twice its length, 4 for its slot, and 8 for its number if there are any. Limit:
// the bandwidth of a copy if fields are 32 bytes or longer. For records in the host's memory it is
// that of the link.
#include "kernels/copy_records.h"
#include "kernels/launch.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kThreads = 256;

template <class Unit>
__device__ __forceinline__ void copy_unit(char* slot, char* place, bool to_slots) {
  if (to_slots) {
    *reinterpret_cast<Unit*>(slot) = *reinterpret_cast<const Unit*>(place);
  } else {
    *reinterpret_cast<Unit*>(place) = *reinterpret_cast<const Unit*>(slot);
  }
}

__global__ void __launch_bounds__(kThreads)
    copy_records_kernel(const RecordField* fields, int count, int64_t units, RecordBlock block,
                        bool to_slots) {
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t record = at / units, unit = at % units;
  if (record >= block.count) return;
  int f = 0;
  while (f + 1 < count && fields[f + 1].first_unit <= unit) ++f;
  const RecordField field = fields[f];
  const int64_t within = (unit - field.first_unit) * field.unit;
  char* const slot = field.slots + block.slots[record] * field.stride + within;
  const int64_t number = block.numbers ? block.numbers[record] : record;
  char* const place = block.records + number * block.stride + field.at + within;
  switch (field.unit) {
    case 2:
      return copy_unit<uint16_t>(slot, place, to_slots);
    case 4:
      return copy_unit<uint32_t>(slot, place, to_slots);
    case 8:
      return copy_unit<uint2>(slot, place, to_slots);
    default:
      return copy_unit<uint4>(slot, place, to_slots);
  }
}

}  // namespace

void copy_records(const RecordField* fields, int count, int64_t units, const RecordBlock& block,
                  bool to_slots, cudaStream_t stream) {
  launch(copy_records_kernel, {blocks_for(block.count * units, int64_t{kThreads}), kThreads},
         stream, fields, count, units, block, to_slots);
}

}  // namespace dlrm::kernels
