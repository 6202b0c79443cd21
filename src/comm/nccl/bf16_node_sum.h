#pragma once
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/partition.h"

#include "comm/world/node_layout.h"
#include "nccl_session.h"

namespace dlrm::comm {

/// An allreduce of floats that travel as bf16, among nodes of several ranks each. A value crosses
/// the links of nodes as one sum of its node, in fp32, and comes back as the sum of all, in bf16:
///
/// 1. Rank i of each node receives part i of the rounded values of its node's ranks, and adds them
///    in fp32 in rank order.
/// 2. Ranks i of all nodes exchange pieces of these sums, and each adds a piece in fp32, in the
///    order of nodes, and rounds it.
/// 3. They gather the pieces.
/// 4. The ranks of a node gather the parts.
class Bf16NodeSum {
 public:
  /// Whether all nodes have the same number of ranks, at least two, and there are two nodes.
  static bool fits(const NodeLayout& nodes);

  Bf16NodeSum(NcclSession& session, NcclLane& lane, const Reduction& reduction);
  /// Enqueues the whole sum on the lane's stream.
  void enqueue();

 private:
  Range part(size_t place) const;
  /// Piece `node` of this rank's part, from the part's begin.
  Range piece(size_t node) const;
  View<uint16_t> on_wire(Range range) const;
  void add_within_node();
  void add_among_nodes();

  NcclSession& session_;
  NcclLane& lane_;
  const Reduction& reduction_;
  const NodeLayout& nodes_;
  const size_t place_;
  const size_t node_;
  std::vector<int> partners_;     // the ranks with this place, by node
  uint16_t* wire_ = nullptr;      // all values, rounded; later the sums
  float* node_sum_ = nullptr;     // [part]
  uint16_t* received_ = nullptr;  // this part of the node's ranks
  float* sums_ = nullptr;         // this piece of all nodes; takes the memory of received_
};

}  // namespace dlrm::comm
