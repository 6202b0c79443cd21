#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/partition.h"

#include "comm/calls/call.h"
#include "comm/calls/call_buffer.h"
#include "comm/collectives/collective_kind.h"
#include "comm/collectives/combine.h"
#include "comm/collectives/general_allreduce.h"
#include "exchange_table.h"

namespace dlrm::comm {

/// Allreduce of `data` among ranks that all share memory. Once all ranks have published their
/// values, each rank combines one part of them in rank order and writes the result to every rank.
/// Values are copied only if they lie outside the arena or travel as another type.
///
/// If a rank has no shared memory left, all ranks run GeneralAllreduce instead. Both give the same
/// bits.
template <class Op, class T, class W>
class SharedAllreduce final : public Call {
 public:
  SharedAllreduce(Communicator& comm, ExchangeTable& table, const char* name, View<T> data)
      : Call(comm.engine()),
        comm_(comm),
        table_(table),
        name_(name),
        data_(data),
        part_memory_(comm.engine()) {}

  ~SharedAllreduce() override {
    // If other ranks still access the descriptor or the copy, these are never reused.
    if (descriptor_ && !descriptor_->all_have_read()) return;
    if (descriptor_) descriptor_->in_use = false;
    table_.group()->pool().release(copy_);
  }

  void start() {
    sequence_ = comm_.reserve(name_, static_cast<int64_t>(data_.size_bytes()), 4);
    const std::lock_guard lock(engine().mutex());
    const ArenaAddress address = share_values();
    const auto ranks = static_cast<size_t>(comm_.size());
    part_memory_.allocate(static_cast<int64_t>(ranks * sizeof(Part)));
    parts_ = {part_memory_.template as<Part>(), ranks};
    descriptor_ = &table_.acquire(sequence_);
    descriptor_->kind = kind_of(name_);
    for (int q = 0; q < comm_.size(); ++q) {
      table_.block_for(*descriptor_, q) = {count() * static_cast<int64_t>(sizeof(W)), address};
    }
    descriptor_->publish(sequence_, comm_.size() - 1);
    engine().add(*this);
  }

 private:
  static constexpr bool kSame = std::is_same_v<T, W>;

  struct Part {
    ExchangeDescriptor* descriptor = nullptr;
    W* values = nullptr;
  };

  bool step() override {
    if (!finished_reading_) {
      if (!find_all_values()) return false;
      if (all_shared_) {
        sum_own_part();
      } else {
        start_general();
      }
      finish_reading();
    }
    if (!descriptor_->all_have_read() || !general_.poll()) return false;
    if (!all_shared_) return true;
    if (copy_.data) {
      const W* sums = reinterpret_cast<const W*>(copy_.data);
      convert(engine(), sums, count(), data_.data());
    }
    return true;
  }

  /// Returns an address at which all ranks can access this rank's values; null if no shared memory
  /// is left.
  ArenaAddress share_values() {
    SharedMemoryGroup& group = *table_.group();
    if constexpr (kSame) {
      const ArenaAddress address = group.arena().address_of(data_.data(), data_.size_bytes());
      if (!address.is_null()) return address;
    }
    copy_ = group.pool().acquire(data_.size() * sizeof(W));
    if (!copy_.data) return {};
    W* values = reinterpret_cast<W*>(copy_.data);
    convert(engine(), data_.data(), count(), values);
    return group.arena().address_of(copy_.data, copy_.bytes);
  }

  /// Finds the descriptors and values of all ranks. Returns false if one is not published yet.
  bool find_all_values() {
    for (; found_ < comm_.size(); ++found_) {
      ExchangeDescriptor* descriptor =
          found_ == comm_.rank() ? descriptor_ : table_.find(found_, sequence_);
      if (!descriptor || descriptor->kind != descriptor_->kind) return false;
      const BlockRef& block = table_.block_for_me(*descriptor);
      if (block.bytes != count() * static_cast<int64_t>(sizeof(W))) {
        throw run_error("{} of rank {} is over {} bytes, that of rank {} over {}", name_,
                        comm_.rank(), data_.size() * sizeof(W), found_, block.bytes);
      }
      Part& part = parts_[static_cast<size_t>(found_)];
      part.descriptor = descriptor;
      if (block.address.is_null()) {
        all_shared_ = false;
      } else {
        part.values = reinterpret_cast<W*>(table_.at(found_, block.address));
      }
    }
    return true;
  }

  void sum_own_part() {
    const Range own = part_of(count(), comm_.rank(), comm_.size());
    const auto bytes = static_cast<int64_t>(2 * parts_.size() * sizeof(W));  // read and written
    engine().divide(own.size(), bytes, [&](int64_t begin, int64_t end) {
      combine_into_all<Op, T>(View<const Part>(parts_.data(), parts_.size()),
                              {own.begin + begin, own.begin + end});
    });
  }

  void start_general() {
    using General = GeneralAllreduce<Op, T, W>;
    std::unique_ptr<General> call(new (call_pool_of(comm_)) General(comm_, name_, data_));
    call->start_at(sequence_ + 1);
    general_ = Pending(std::move(call));
  }

  void finish_reading() {
    for (int q = 0; q < comm_.size(); ++q) {
      if (q != comm_.rank()) parts_[static_cast<size_t>(q)].descriptor->finish_reading();
    }
    finished_reading_ = true;
  }

  int64_t count() const { return static_cast<int64_t>(data_.size()); }

  Communicator& comm_;
  ExchangeTable& table_;
  const char* name_;
  View<T> data_;
  uint64_t sequence_ = 0;
  ExchangeDescriptor* descriptor_ = nullptr;
  BlockPool<Arena>::Block copy_;  ///< of the values; the sums are written there
  CallBuffer part_memory_;
  View<Part> parts_;
  int found_ = 0;  ///< ranks whose values are known
  bool finished_reading_ = false;
  bool all_shared_ = true;
  Pending general_;
};

}  // namespace dlrm::comm
