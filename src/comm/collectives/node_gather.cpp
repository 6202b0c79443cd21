#include "node_gather.h"

#include <algorithm>

#include "exchanges.h"

namespace dlrm::comm {

NodeGather::NodeGather(Communicator& comm, const NodeLayout& nodes, Exchange exchange)
    : Call(comm.engine()),
      comm_(comm),
      nodes_(nodes),
      exchange_(std::move(exchange)),
      foreign_bytes_(block_bytes_of_all() - block_bytes_of_node(nodes.node())),
      packed_send_(comm.engine()),
      packed_receive_(comm.engine()) {}

NodeGather::~NodeGather() { engine().call_pool()->release(std::move(exchange_.layout)); }

void NodeGather::start() {
  pending_ = comm_.start_exchange(between_nodes());
  engine().add(*this);
}

bool NodeGather::step() {
  if (!pending_.poll()) return false;
  if (!within_node_) {
    within_node_ = true;
    if (own_size() == 1) return true;
    pending_ = comm_.start_exchange(within_node());
    if (!pending_.poll()) return false;
  }
  if (unpacks_) put_received_shares_in_place();
  return true;
}

Exchange NodeGather::between_nodes() {
  Exchange exchange = empty_exchange(comm_, exchange_.name);
  exchange.sequence = exchange_.sequence;
  exchange.send = exchange_.send;
  exchange.receive = exchange_.receive;
  const ExchangeLayout& whole = exchange_.layout;
  ExchangeLayout& layout = exchange.layout;
  for (const int rank : nodes_.own_ranks()) {
    const auto q = static_cast<size_t>(rank);
    layout.send_bytes[q] = whole.send_bytes[q];
    layout.send_offsets[q] = whole.send_offsets[q];
    layout.receive_bytes[q] = whole.receive_bytes[q];
    layout.receive_offsets[q] = whole.receive_offsets[q];
  }
  for (int node = 0; node < nodes_.nodes(); ++node) {
    if (node != nodes_.node()) send_shares_to(node, exchange);
  }
  each_piece(nodes_.place(), [&](const Piece& piece) {
    const auto q = static_cast<size_t>(piece.rank);
    layout.receive_bytes[q] = piece.bytes;
    layout.receive_offsets[q] = piece.offset;
  });
  return exchange;
}

/// Divides this rank's block among the ranks of another node.
void NodeGather::send_shares_to(int node, Exchange& exchange) const {
  int64_t begin = 0;  // of the block, among the bytes that are foreign to the node
  for (int q = 0; q < comm_.rank(); ++q) {
    if (nodes_.node_of(q) != node) begin += block_bytes(q);
  }
  const int64_t end = begin + block_bytes(comm_.rank());
  const int64_t foreign = block_bytes_of_all() - block_bytes_of_node(node);
  const View<const int> ranks = nodes_.ranks_of(node);
  for (size_t place = 0; place < ranks.size(); ++place) {
    const Range share =
        part_of(foreign, static_cast<int64_t>(place), static_cast<int64_t>(ranks.size()));
    const int64_t from = std::max(begin, share.begin), to = std::min(end, share.end);
    if (from >= to) continue;
    const auto q = static_cast<size_t>(ranks[place]);
    exchange.layout.send_bytes[q] = to - from;
    exchange.layout.send_offsets[q] = exchange_.layout.send_offsets[q] + from - begin;
  }
}

/// Shares are sent from where they lie in the receive buffer, and received there, unless their
/// pieces have gaps.
Exchange NodeGather::within_node() {
  Exchange exchange = empty_exchange(comm_, exchange_.name);
  exchange.sequence = exchange_.sequence + 1;
  const Range own = share_of(nodes_.place());
  int64_t own_offset = offset_of_share(nodes_.place());
  exchange.send = exchange_.receive;
  if (own_offset == kGaps) {
    exchange.send = pack_own_share();
    own_offset = 0;
  }
  exchange.receive = exchange_.receive;
  for (int place = 0; place < own_size(); ++place) {
    unpacks_ |= place != nodes_.place() && offset_of_share(place) == kGaps;
  }
  if (unpacks_) {
    packed_receive_.allocate(foreign_bytes_);
    exchange.receive = packed_receive_.as<char>();
  }
  for (int place = 0; place < own_size(); ++place) {
    if (place == nodes_.place()) continue;
    const auto q = static_cast<size_t>(nodes_.own_ranks()[static_cast<size_t>(place)]);
    const Range share = share_of(place);
    exchange.layout.send_bytes[q] = own.size();
    exchange.layout.send_offsets[q] = own_offset;
    exchange.layout.receive_bytes[q] = share.size();
    exchange.layout.receive_offsets[q] = unpacks_ ? share.begin : offset_of_share(place);
  }
  return exchange;
}

const char* NodeGather::pack_own_share() {
  const Range own = share_of(nodes_.place());
  packed_send_.allocate(own.size());
  char* packed = packed_send_.as<char>();
  each_piece(nodes_.place(), [&](const Piece& piece) {
    engine().copy(packed + piece.at - own.begin,
                  static_cast<const char*>(exchange_.receive) + piece.offset, piece.bytes);
  });
  return packed;
}

void NodeGather::put_received_shares_in_place() {
  const char* packed = packed_receive_.as<char>();
  for (int place = 0; place < own_size(); ++place) {
    if (place == nodes_.place()) continue;
    each_piece(place, [&](const Piece& piece) {
      engine().copy(static_cast<char*>(exchange_.receive) + piece.offset, packed + piece.at,
                    piece.bytes);
    });
  }
}

template <class Use>
void NodeGather::each_piece(int place, Use use) const {
  const Range share = share_of(place);
  int64_t begin = 0;  // of a block, among the foreign bytes
  for (int q = 0; q < comm_.size() && begin < share.end; ++q) {
    if (nodes_.node_of(q) == nodes_.node()) continue;
    const int64_t end = begin + block_bytes(q);
    const int64_t from = std::max(begin, share.begin), to = std::min(end, share.end);
    if (from < to) {
      const int64_t offset = exchange_.layout.receive_offsets[static_cast<size_t>(q)];
      use(Piece{offset + from - begin, to - from, from, q});
    }
    begin = end;
  }
}

int64_t NodeGather::offset_of_share(int place) const {
  const int64_t begin = share_of(place).begin;
  int64_t offset = 0;
  bool gaps = false;
  each_piece(place, [&](const Piece& piece) {
    if (piece.at == begin) offset = piece.offset;
    gaps |= piece.offset - offset != piece.at - begin;
  });
  return gaps ? kGaps : offset;
}

int64_t NodeGather::block_bytes(int rank) const {
  if (rank != comm_.rank()) return exchange_.layout.receive_bytes[static_cast<size_t>(rank)];
  return exchange_.layout.send_bytes[rank == 0 ? 1 : 0];
}

int64_t NodeGather::block_bytes_of_all() const {
  int64_t bytes = 0;
  for (int q = 0; q < comm_.size(); ++q) bytes += block_bytes(q);
  return bytes;
}

int64_t NodeGather::block_bytes_of_node(int node) const {
  int64_t bytes = 0;
  for (const int q : nodes_.ranks_of(node)) bytes += block_bytes(q);
  return bytes;
}

Range NodeGather::share_of(int place) const { return part_of(foreign_bytes_, place, own_size()); }

}  // namespace dlrm::comm
