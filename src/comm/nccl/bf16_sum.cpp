#include "bf16_sum.h"

#include <numeric>

#include "dlrm/device/cuda/runtime.h"

#include "kernels/elementwise.h"
#include "kernels/rank_sum.h"
#include "ring_exchange.h"

namespace dlrm::comm {
namespace {

std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

Bf16Sum::Bf16Sum(NcclSession& session, NcclLane& lane, const Reduction& reduction)
    : session_(session),
      lane_(lane),
      reduction_(reduction),
      rank_(session.host().rank()),
      ranks_(session.host().size()),
      all_ranks_(numbers(ranks_)) {
  constexpr int64_t kAlignment = 128;  // elements
  const int64_t all = (reduction.count + kAlignment - 1) / kAlignment * kAlignment;
  const int64_t elements = all + part(rank_).size() * ranks_;
  wire_ =
      reinterpret_cast<uint16_t*>(lane.scratch(static_cast<size_t>(elements) * sizeof(uint16_t)));
  received_ = wire_ + all;
}

Range Bf16Sum::part(int q) const { return part_of(reduction_.count, q, ranks_); }

template <class From, class Into>
void Bf16Sum::exchange(From from, Into into) {
  exchange_among(session_, lane_, reduction_.name, all_ranks_, static_cast<size_t>(rank_), from,
                 into);
}

void Bf16Sum::enqueue() {
  const cudaStream_t stream = lane_.native;
  const Matrix values(const_cast<void*>(reduction_.data), DType::kFloat32, 1, reduction_.count);
  const Matrix rounded(wire_, DType::kBFloat16, 1, reduction_.count);
  const auto part_on_wire = [&](size_t at) {
    const int q = static_cast<int>(at);
    return View<uint16_t>(wire_ + part(q).begin, static_cast<size_t>(part(q).size()));
  };
  const auto own = part_on_wire(static_cast<size_t>(rank_));
  kernels::convert(values, rounded, stream);
  session_.device().copy(received(rank_), own.data(), own.size_bytes(), *lane_.stream);
  exchange(part_on_wire,
           [&](size_t q) { return View<uint16_t>(received(static_cast<int>(q)), own.size()); });
  kernels::sum_of_ranks(received_, ranks_, part(rank_).size(), own.data(), stream);
  exchange([&](size_t) { return own; }, part_on_wire);
  kernels::convert(rounded, Matrix(reduction_.out, DType::kFloat32, 1, reduction_.count), stream);
}

}  // namespace dlrm::comm
