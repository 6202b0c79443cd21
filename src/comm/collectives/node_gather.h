#pragma once
#include <cstdint>
#include <utility>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/partition.h"

#include "comm/calls/call.h"
#include "comm/calls/call_buffer.h"
#include "comm/world/node_layout.h"

namespace dlrm::comm {

/// A gather (Exchange::is_gather) in which each node receives the blocks of other nodes once. The
/// foreign bytes of a node, in rank order, are divided among its ranks. In a first exchange each
/// rank receives the blocks of its node and its share of the foreign bytes. In a second one the
/// ranks of a node exchange their shares.
class NodeGather final : public Call {
 public:
  NodeGather(Communicator& comm, const NodeLayout& nodes, Exchange exchange);
  ~NodeGather() override;
  void start();

 private:
  /// Bytes of one block in a share.
  struct Piece {
    int64_t offset = 0;  ///< in the receive buffer
    int64_t bytes = 0;
    int64_t at = 0;  ///< among the foreign bytes
    int rank = 0;    ///< of the block
  };

  static constexpr int64_t kGaps = -1;

  bool step() override;
  Exchange between_nodes();
  Exchange within_node();
  const char* pack_own_share();
  void send_shares_to(int node, Exchange& exchange) const;
  void put_received_shares_in_place();

  /// Calls use(piece) for the pieces of the share of `place`, in order.
  template <class Use>
  void each_piece(int place, Use use) const;
  /// Where the share of `place` lies in the receive buffer; kGaps if its pieces are apart there.
  int64_t offset_of_share(int place) const;

  int64_t block_bytes(int rank) const;
  int64_t block_bytes_of_all() const;
  int64_t block_bytes_of_node(int node) const;
  Range share_of(int place) const;
  int own_size() const { return static_cast<int>(nodes_.own_ranks().size()); }

  Communicator& comm_;
  const NodeLayout& nodes_;
  Exchange exchange_;
  const int64_t foreign_bytes_;
  bool within_node_ = false;
  bool unpacks_ = false;
  CallBuffer packed_send_, packed_receive_;
  Pending pending_;  // declared last, so it is destroyed before its buffers
};

}  // namespace dlrm::comm
