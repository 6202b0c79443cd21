#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/partition.h"
#include "dlrm/wire/message_bytes.h"

#include "combine.h"
#include "comm/calls/call.h"
#include "comm/calls/call_buffer.h"
#include "exchanges.h"

namespace dlrm::comm {

/// Allreduce of `data` in two exchanges. Each rank receives one part of the values of all ranks and
/// combines it in rank order. The combined parts are then gathered. Small data takes one exchange
/// instead. Values travel as W.
template <class Op, class T, class W>
class GeneralAllreduce final : public Call {
 public:
  GeneralAllreduce(Communicator& comm, const char* name, View<T> data)
      : Call(comm.engine()),
        comm_(comm),
        name_(name),
        data_(data),
        one_exchange_(static_cast<int64_t>(data.size()) * kWidth * (comm.size() - 1) <=
                      kOneExchangeBytes),
        wire_(comm.engine()),
        received_(comm.engine()),
        parts_(comm.engine()) {}

  void start() { start_at(comm_.reserve(name_, static_cast<int64_t>(data_.size_bytes()), 3)); }
  /// Uses the sequence numbers `sequence` to `sequence` + 2.
  void start_at(uint64_t sequence) {
    sequence_ = sequence;
    if constexpr (!kSame) {
      wire_.allocate(count() * kWidth);
      convert(engine(), data_.data(), count(), wire_.template as<W>());
    }
    exchange_ = one_exchange_ ? gather_everything() : scatter_parts();
    engine().add(*this);
  }

 private:
  static constexpr bool kSame = std::is_same_v<T, W>;
  static constexpr int64_t kWidth = static_cast<int64_t>(sizeof(W));

  bool step() override {
    if (!exchange_.poll()) return false;
    if (one_exchange_) {
      combine(count(), data_.data());
      return true;
    }
    if (!gathering_) {
      combine_own_part();
      exchange_ = gather_parts();
      gathering_ = true;
      return false;
    }
    if constexpr (!kSame) {
      convert(engine(), values(), count(), data_.data());
    }
    return true;
  }

  Pending gather_everything() {
    const int64_t bytes = count() * kWidth;
    received_.allocate(bytes * comm_.size());
    return begin(gather_exchange(
                     comm_, name_, values(), received_.template as<void>(),
                     [&](int) { return bytes; }, [&](int q) { return q * bytes; }),
                 0);
  }

  Pending scatter_parts() {
    received_.allocate(part(comm_.rank()).size() * kWidth * comm_.size());
    return begin(
        scatter_exchange(comm_, name_, values(), received_.template as<void>(), count(), kWidth),
        0);
  }

  Pending gather_parts() {
    return begin(gather_exchange(
                     comm_, name_, values() + part(comm_.rank()).begin, values(),
                     [&](int q) { return part(q).size() * kWidth; },
                     [&](int q) { return part(q).begin * kWidth; }),
                 1);
  }

  Pending begin(Exchange exchange, uint64_t number) {
    exchange.sequence = sequence_ + number;
    return comm_.start_exchange(std::move(exchange));
  }

  void combine_own_part() {
    const Range own = part(comm_.rank());
    combine(own.size(), values() + own.begin);
  }

  template <class Out>
  void combine(int64_t length, Out* out) {
    parts_.allocate(static_cast<int64_t>(ranks() * sizeof(const W*)));
    const View<const W*> parts(parts_.template as<const W*>(), ranks());
    for (size_t q = 0; q < ranks(); ++q) {
      parts[q] = received_.template as<W>() + static_cast<int64_t>(q) * length;
    }
    if (!one_exchange_) parts[static_cast<size_t>(comm_.rank())] = out_as_wire(out);
    const auto bytes = static_cast<int64_t>(ranks() * sizeof(W) + sizeof(Out));
    engine().divide(length, bytes, [&](int64_t begin, int64_t end) {
      combine_with_rounding(View<const W* const>(parts), {begin, end}, out);
    });
  }

  static const W* out_as_wire(W* out) { return out; }
  template <class Out>
  static const W* out_as_wire(Out*) {
    return nullptr;
  }

  template <class Out>
  static void combine_with_rounding(View<const W* const> parts, Range range, Out* out) {
    combine_in_rank_order<Op, T, W>(parts, range, out);
    if constexpr (!std::is_same_v<Out, W>) {
      // Rounds as after two exchanges, in which the sum is sent as W.
      for (int64_t i = range.begin; i < range.end; ++i) {
        out[i] = static_cast<Out>(static_cast<W>(out[i]));
      }
    }
  }

  /// The values that travel: the data itself, or its rounded copy.
  W* values() const {
    if constexpr (kSame) {
      return data_.data();
    } else {
      return wire_.template as<W>();
    }
  }
  int64_t count() const { return static_cast<int64_t>(data_.size()); }
  size_t ranks() const { return static_cast<size_t>(comm_.size()); }
  Range part(int q) const { return part_of(count(), q, comm_.size()); }

  Communicator& comm_;
  const char* name_;
  View<T> data_;
  bool one_exchange_;
  bool gathering_ = false;
  uint64_t sequence_ = 0;
  CallBuffer wire_, received_, parts_;
  Pending exchange_;  // declared last, so it is destroyed before its buffers
};

}  // namespace dlrm::comm
