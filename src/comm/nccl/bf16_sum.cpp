#include "bf16_sum.h"

#include "dlrm/device/cuda/runtime.h"

#include "kernels/elementwise.h"
#include "kernels/rank_sum.h"

namespace dlrm::comm {

Bf16Sum::Bf16Sum(NcclSession& session, NcclLane& lane, const Reduction& reduction)
    : session_(session),
      lane_(lane),
      reduction_(reduction),
      rank_(session.host().rank()),
      ranks_(session.host().size()) {
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
  const auto queue = [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t s) {
    for (int hop = 1; hop < ranks_; ++hop) {
      const int to = (rank_ + hop) % ranks_, source = (rank_ + ranks_ - hop) % ranks_;
      const View<uint16_t> send = from(to), receive = into(source);
      if (!send.empty()) {
        session_.check(nccl.send(send.data(), send.size_bytes(), ncclInt8, to, comm, s));
      }
      if (!receive.empty()) {
        session_.check(nccl.recv(receive.data(), receive.size_bytes(), ncclInt8, source, comm, s));
      }
    }
  };
  session_.group(reduction_.name, lane_, queue);
}

void Bf16Sum::enqueue() {
  const cudaStream_t stream = lane_.native;
  const Matrix values(const_cast<void*>(reduction_.data), DType::kFloat32, 1, reduction_.count);
  const Matrix rounded(wire_, DType::kBFloat16, 1, reduction_.count);
  const auto part_on_wire = [&](int q) {
    return View<uint16_t>(wire_ + part(q).begin, static_cast<size_t>(part(q).size()));
  };
  const auto own = part_on_wire(rank_);
  kernels::convert(values, rounded, stream);
  session_.device().copy(received(rank_), own.data(), own.size_bytes(), *lane_.stream);
  exchange(part_on_wire, [&](int q) { return View<uint16_t>(received(q), own.size()); });
  kernels::sum_of_ranks(received_, ranks_, part(rank_).size(), own.data(), stream);
  exchange([&](int) { return own; }, part_on_wire);
  kernels::convert(rounded, Matrix(reduction_.out, DType::kFloat32, 1, reduction_.count), stream);
}

}  // namespace dlrm::comm
