#pragma once
#include "dlrm/comm/communicator.h"
#include "dlrm/core/partition.h"

#include "nccl_session.h"

namespace dlrm {

/// An allreduce of floats that travel as bf16, bitwise the host communicators': every rank receives
/// its part of everybody's rounded values, adds them in fp32 in rank order, rounds the sum, and the
/// parts are gathered. NCCL's own sum of bf16 would round after every addition.
class Bf16Sum {
 public:
  /// More than one rank.
  Bf16Sum(NcclSession& session, const Reduction& reduction);
  /// Puts all of it on the session's stream.
  void queue();

 private:
  Range part(int q) const;
  uint16_t* arrived(int q) const { return arrived_ + q * part(rank_).size(); }
  /// Blocks between all pairs of ranks: to q what `from(q)` says, from q into what `into(q)` says.
  template <class From, class Into>
  void exchange(From from, Into into);

  NcclSession& session_;
  const Reduction& reduction_;
  const int rank_;
  const int ranks_;
  uint16_t* wire_ = nullptr;     // all values, rounded; then the sums
  uint16_t* arrived_ = nullptr;  // the own part of each rank, rank after rank
};

}  // namespace dlrm
