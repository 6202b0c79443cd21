#pragma once
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/partition.h"

#include "chain_choice.h"
#include "combine.h"
#include "comm/calls/call.h"
#include "comm/calls/call_buffer.h"
#include "comm/world/node_layout.h"
#include "exchanges.h"

namespace dlrm::comm {

/// Allreduce of `data` among nodes of consecutive ranks, in rank order, with few bytes between
/// nodes. The vector is cut into as many parts as the smallest node has ranks, and rank i of each
/// node is responsible for part i:
///
/// 1. It collects the part's values of the ranks of its node.
/// 2. It receives the sum over all lower nodes, adds its node's values in rank order, and sends the
///    sum to the next node. The last node so has the sum over all ranks.
/// 3. The last node's sum travels back from node to node.
/// 4. The ranks of a node gather the parts.
///
/// Parts are cut into segments, so that both directions and all nodes are busy. Partial sums travel
/// as T, values within a node and final sums as W.
template <class Op, class T, class W>
class ChainAllreduce final : public Call {
 public:
  ChainAllreduce(Communicator& comm, const NodeLayout& nodes, const char* name, View<T> data)
      : Call(comm.engine()),
        comm_(comm),
        nodes_(nodes),
        name_(name),
        data_(data),
        segments_(chain_segments(nodes, static_cast<int64_t>(data.size_bytes()))),
        part_(part_at(nodes.place())),
        wire_(comm.engine()),
        received_(comm.engine()),
        sums_(comm.engine()),
        sources_(comm.engine()) {}

  void start() {
    sequence_ = comm_.reserve(name_, static_cast<int64_t>(data_.size_bytes()),
                              kNodeExchanges + segments_ * kHops);
    if constexpr (!kSame) {
      wire_.allocate(count() * kWidth);
      convert(engine(), data_.data(), count(), wire_.template as<W>());
    }
    received_.allocate(part_.size() * kWidth * own_size());
    sums_.allocate(part_.size() * static_cast<int64_t>(sizeof(T)));
    sources_.allocate(own_size() * static_cast<int64_t>(sizeof(const W*)));
    node_exchange_ = start_exchange(collect_part(), 0);
    for (int s = 0; s < segments_; ++s) start_segment(s);
    engine().add(*this);
  }

 private:
  static constexpr bool kSame = std::is_same_v<T, W>;
  static constexpr int64_t kWidth = static_cast<int64_t>(sizeof(W));
  static constexpr int kNodeExchanges = 2;
  /// Sequence numbers of a segment: those of two hops, and of two hops back. A node's two
  /// neighbours have numbers of their own, and more distant nodes do not meet.
  static constexpr int kHops = 4;

  enum class Stage : uint8_t { kAwaitsLowerNodes, kAwaitsResult, kSends, kDone };

  struct Segment {
    Range range;  ///< in the data
    Stage stage = Stage::kDone;
    Pending receiving, sending;
  };

  bool step() override {
    if (!node_exchange_.poll()) return false;
    if (!gathering_) {
      bool all_done = true;
      for (int s = 0; s < segments_; ++s) all_done &= advance(s);
      if (!all_done) return false;
      node_exchange_ = start_exchange(gather_parts(), 1);
      gathering_ = true;
      if (!node_exchange_.poll()) return false;
    }
    if constexpr (!kSame) {
      convert(engine(), values(), count(), data_.data());
    }
    return true;
  }

  void start_segment(int s) {
    const Range within = part_of(part_.size(), s, segments_);
    Segment& segment = all_segments_[static_cast<size_t>(s)];
    segment.range = {part_.begin + within.begin, part_.begin + within.end};
    if (segment.range.size() == 0) return;
    segment.stage = Stage::kAwaitsLowerNodes;
    if (!is_first()) {
      segment.receiving = receive(nodes_.node() - 1, sums_of(segment.range),
                                  segment.range.size() * sizeof_sum(), hop_number(s, -1));
    }
  }

  /// Returns true once the segment's sum is known and sent on.
  bool advance(int s) {
    Segment& segment = all_segments_[static_cast<size_t>(s)];
    if (segment.stage == Stage::kAwaitsLowerNodes) {
      if (!segment.receiving.poll()) return false;
      if (is_last()) {
        add_own_node(segment.range, values() + segment.range.begin);
        send_result_back(s);
      } else {
        add_own_node(segment.range, sums_of(segment.range));
        segment.sending = send(nodes_.node() + 1, sums_of(segment.range),
                               segment.range.size() * sizeof_sum(), hop_number(s, 0));
        segment.receiving = receive(nodes_.node() + 1, values() + segment.range.begin,
                                    segment.range.size() * kWidth, hop_number(s, 0) + 2);
        segment.stage = Stage::kAwaitsResult;
      }
    }
    if (segment.stage == Stage::kAwaitsResult) {
      if (!segment.receiving.poll() || !segment.sending.poll()) return false;
      send_result_back(s);
    }
    if (segment.stage == Stage::kSends && segment.sending.poll()) segment.stage = Stage::kDone;
    return segment.stage == Stage::kDone;
  }

  void send_result_back(int s) {
    Segment& segment = all_segments_[static_cast<size_t>(s)];
    segment.stage = is_first() ? Stage::kDone : Stage::kSends;
    if (is_first()) return;
    segment.sending = send(nodes_.node() - 1, values() + segment.range.begin,
                           segment.range.size() * kWidth, hop_number(s, -1) + 2);
  }

  /// Adds the values of this node's ranks to the sum of the lower nodes.
  template <class Out>
  void add_own_node(Range range, Out* out) {
    const View<const W*> sources(sources_.template as<const W*>(), static_cast<size_t>(own_size()));
    for (int place = 0; place < own_size(); ++place) {
      const W* part = place == nodes_.place() ? values() + part_.begin
                                              : received_.template as<W>() + place * part_.size();
      sources[static_cast<size_t>(place)] = part + (range.begin - part_.begin);
    }
    const T* const before = is_first() ? nullptr : sums_of(range);
    const auto bytes = static_cast<int64_t>(sources.size() * sizeof(W) + sizeof(T) + sizeof(Out));
    engine().divide(range.size(), bytes, [&](int64_t begin, int64_t end) {
      combine_in_rank_order<Op, T, W>(View<const W* const>(sources), {begin, end}, out, before);
    });
  }

  Exchange collect_part() {
    Exchange exchange = empty_exchange(comm_, name_);
    exchange.send = values();
    exchange.receive = received_.template as<void>();
    for_other_places([&](int place, size_t q) {
      exchange.layout.send_bytes[q] = part_at(place).size() * kWidth;
      exchange.layout.send_offsets[q] = part_at(place).begin * kWidth;
      exchange.layout.receive_bytes[q] = part_.size() * kWidth;
      exchange.layout.receive_offsets[q] = place * part_.size() * kWidth;
    });
    return exchange;
  }

  Exchange gather_parts() {
    Exchange exchange = empty_exchange(comm_, name_);
    exchange.send = values();
    exchange.receive = values();
    for_other_places([&](int place, size_t q) {
      exchange.layout.send_bytes[q] = part_.size() * kWidth;
      exchange.layout.send_offsets[q] = part_.begin * kWidth;
      exchange.layout.receive_bytes[q] = part_at(place).size() * kWidth;
      exchange.layout.receive_offsets[q] = part_at(place).begin * kWidth;
    });
    return exchange;
  }

  template <class Use>
  void for_other_places(Use use) {
    for (int place = 0; place < own_size(); ++place) {
      if (place == nodes_.place()) continue;
      use(place, static_cast<size_t>(nodes_.own_ranks()[static_cast<size_t>(place)]));
    }
  }

  Pending send(int node, const void* from, int64_t bytes, int number) {
    Exchange exchange = empty_exchange(comm_, name_);
    exchange.send = from;
    exchange.layout.send_bytes[peer_on(node)] = bytes;
    return start_exchange(std::move(exchange), number);
  }
  Pending receive(int node, void* to, int64_t bytes, int number) {
    Exchange exchange = empty_exchange(comm_, name_);
    exchange.receive = to;
    exchange.layout.receive_bytes[peer_on(node)] = bytes;
    return start_exchange(std::move(exchange), number);
  }
  Pending start_exchange(Exchange exchange, int number) {
    exchange.sequence = sequence_ + static_cast<uint64_t>(number);
    return comm_.start_exchange(std::move(exchange));
  }
  /// The number of the hop from node `node() + offset` to the next; + 2: of the way back.
  int hop_number(int segment, int offset) const {
    return kNodeExchanges + segment * kHops + (nodes_.node() + offset) % 2;
  }

  bool is_first() const { return nodes_.node() == 0; }
  bool is_last() const { return nodes_.node() == nodes_.nodes() - 1; }
  size_t peer_on(int node) const {
    return static_cast<size_t>(nodes_.ranks_of(node)[static_cast<size_t>(nodes_.place())]);
  }
  Range part_at(int place) const {
    return place < nodes_.smallest() ? part_of(count(), place, nodes_.smallest()) : Range{};
  }
  T* sums_of(Range range) const { return sums_.template as<T>() + (range.begin - part_.begin); }
  /// The values that travel within the node: the data itself, or its rounded copy.
  W* values() const {
    if constexpr (kSame) {
      return data_.data();
    } else {
      return wire_.template as<W>();
    }
  }
  static constexpr int64_t sizeof_sum() { return static_cast<int64_t>(sizeof(T)); }
  int64_t count() const { return static_cast<int64_t>(data_.size()); }
  int own_size() const { return static_cast<int>(nodes_.own_ranks().size()); }

  Communicator& comm_;
  const NodeLayout& nodes_;
  const char* name_;
  View<T> data_;
  const int segments_;
  const Range part_;  ///< of the data, for which this rank is responsible
  bool gathering_ = false;
  uint64_t sequence_ = 0;
  CallBuffer wire_, received_, sums_, sources_;
  // Declared last, so that they are destroyed before their buffers.
  std::array<Segment, kChainSegments> all_segments_;
  Pending node_exchange_;
};

}  // namespace dlrm::comm
