#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/partition.h"

#include "board.h"
#include "combine.h"
#include "general_allreduce.h"
#include "mpi_exchange.h"
#include "progress.h"

namespace dlrm {

/// Sums `data` over ranks that all share memory: once everybody's data is seen, each rank adds up
/// its part of it, in rank order, and writes the sums to all. Nothing else is copied where data
/// lies in shared memory and travels as it is. Bitwise what Allreduce makes, which is what all
/// ranks do where one of them has no memory to show.
template <class Op, class T, class W>
class SharedAllreduce final : public Call {
 public:
  SharedAllreduce(Communicator& comm, Board& board, const char* name, View<T> data)
      : Call(comm.engine()),
        comm_(comm),
        board_(board),
        name_(name),
        data_(data),
        part_memory_(comm.engine()) {}

  ~SharedAllreduce() override {
    // Where others still read or write, the notice and the copy are never used again.
    if (notice_ && !notice_->all_have_read()) return;
    if (notice_) notice_->held = false;
    board_.node().blocks().give_back(staged_);
  }

  void start() {
    sequence_ = comm_.reserve(name_, static_cast<int64_t>(data_.size_bytes()), 3);
    const std::lock_guard lock(engine().mutex());
    const Spot place = shown();
    const auto ranks = static_cast<size_t>(comm_.size());
    part_memory_.take(static_cast<int64_t>(ranks * sizeof(Part)));
    parts_ = {part_memory_.template as<Part>(), ranks};
    notice_ = &board_.fresh(sequence_);
    notice_->kind = kind_of(name_);
    for (int q = 0; q < comm_.size(); ++q) {
      board_.offer_to(*notice_, q) = {count() * static_cast<int64_t>(sizeof(W)), place};
    }
    notice_->post(sequence_, comm_.size() - 1);
    engine().add(*this);
  }

 private:
  static constexpr bool kSame = std::is_same_v<T, W>;

  bool step() override {
    if (!counted_off_) {
      if (!all_shown()) return false;
      if (all_have_memory_) {
        sum_own_part();
      } else {
        start_general();
      }
      count_off();
    }
    if (!notice_->all_have_read() || !general_.poll()) return false;
    if (!all_have_memory_) return true;
    if (staged_.data) {
      const W* sums = reinterpret_cast<const W*>(staged_.data);
      for (size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<T>(sums[i]);
    }
    return true;
  }

  /// This rank's values where all can read and write them; nowhere if there is no memory for that.
  Spot shown() {
    Arena& arena = board_.node().arena();
    if constexpr (kSame) {
      const Spot place = arena.find(data_.data(), data_.size_bytes());
      if (!place.nowhere()) return place;
    }
    const size_t bytes = data_.size() * sizeof(W);
    staged_ = board_.node().blocks().take(bytes);
    if (!staged_.data) return {};
    W* values = reinterpret_cast<W*>(staged_.data);
    for (size_t i = 0; i < data_.size(); ++i) values[i] = static_cast<W>(data_[i]);
    return staged_.spot;
  }

  /// Finds everybody's notice and values.
  bool all_shown() {
    for (; seen_ < comm_.size(); ++seen_) {
      Notice* notice = seen_ == comm_.rank() ? notice_ : board_.find(seen_, sequence_);
      if (!notice || notice->kind != notice_->kind) return false;
      const Offer& offer = board_.offer_to_me(*notice);
      if (offer.bytes != count() * static_cast<int64_t>(sizeof(W))) {
        throw run_error("{} of rank {} is over {} bytes, that of rank {} over {}", name_,
                        comm_.rank(), data_.size() * sizeof(W), seen_, offer.bytes);
      }
      Part& part = parts_[static_cast<size_t>(seen_)];
      part.notice = notice;
      if (offer.place.nowhere()) {
        all_have_memory_ = false;
      } else {
        part.values = reinterpret_cast<W*>(board_.at(seen_, offer.place));
      }
    }
    return true;
  }

  void sum_own_part() {
    const Range own = part_of(count(), comm_.rank(), comm_.size());
    combine_into_all<Op, T>(View<const Part>(parts_.data(), parts_.size()), own);
  }

  void start_general() {
    using General = Allreduce<Op, T, W>;
    std::unique_ptr<General> call(new (memory_of(comm_)) General(comm_, name_, data_));
    call->start_at(sequence_ + 1);
    general_ = Pending(std::move(call));
  }

  void count_off() {
    for (int q = 0; q < comm_.size(); ++q) {
      if (q != comm_.rank()) parts_[static_cast<size_t>(q)].notice->finish_reading();
    }
    counted_off_ = true;
  }

  struct Part {
    Notice* notice = nullptr;
    W* values = nullptr;
  };

  int64_t count() const { return static_cast<int64_t>(data_.size()); }

  Communicator& comm_;
  Board& board_;
  const char* name_;
  View<T> data_;
  uint64_t sequence_ = 0;
  Notice* notice_ = nullptr;
  ArenaBlocks::Block staged_;
  Scratch part_memory_;
  View<Part> parts_;
  int seen_ = 0;
  bool counted_off_ = false;
  bool all_have_memory_ = true;
  Pending general_;
};

}  // namespace dlrm
