#pragma once
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/partition.h"

#include "nccl_session.h"

namespace dlrm::comm {

/// An allreduce of floats that travel as bf16, with the same bits as on the host. Each rank
/// receives one part of all rounded values, adds it in fp32 in rank order, and rounds the sum. The
/// parts are then gathered. Used within a node, and among nodes that Bf16NodeSum does not fit.
/// NCCL's own sum of bf16 would round after each addition.
class Bf16Sum {
 public:
  /// For at least two ranks.
  Bf16Sum(NcclSession& session, NcclLane& lane, const Reduction& reduction);
  /// Enqueues the whole sum on the lane's stream.
  void enqueue();

 private:
  Range part(int q) const;
  uint16_t* received(int q) const { return received_ + q * part(rank_).size(); }
  /// As exchange_among(), all ranks.
  template <class From, class Into>
  void exchange(From from, Into into);

  NcclSession& session_;
  NcclLane& lane_;
  const Reduction& reduction_;
  const int rank_;
  const int ranks_;
  const std::vector<int> all_ranks_;
  uint16_t* wire_ = nullptr;      // all values, rounded; later the sums
  uint16_t* received_ = nullptr;  // this rank's part of all ranks' values, in rank order
};

}  // namespace dlrm::comm
