#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "dlrm/comm/communicator.h"

namespace dlrm::comm {

/// The rank of a world of threads that failed first; -1: none.
class FirstFailure {
 public:
  void set(int rank) {
    int none = -1;
    rank_.compare_exchange_strong(none, rank);
  }
  int rank() const { return rank_.load(std::memory_order_acquire); }

 private:
  std::atomic<int> rank_{-1};
};

/// One exchange among threads: the buffers that ranks offer to one another.
struct ThreadRendezvous {
  struct Entry {
    const Exchange* exchange = nullptr;  // null: not entered, or withdrawn
    std::atomic<int> readers{0};         // ranks that have not copied from here yet
  };
  explicit ThreadRendezvous(int ranks) : entries(static_cast<size_t>(ranks)) {}

  std::vector<Entry> entries;
  std::atomic<int> entered{0};
  int left = 0;               // under the group's mutex
  std::shared_mutex buffers;  // shared while copying, exclusive while withdrawing
};

/// The threads of one communicator.
class ThreadGroup {
 public:
  ThreadGroup(int ranks, std::shared_ptr<FirstFailure> failure)
      : ranks_(ranks), failure_(std::move(failure)) {}

  int ranks() const { return ranks_; }
  /// The rank that failed; -1: none.
  int failed_rank() const { return failure_->rank(); }

  /// Returns the rendezvous of exchange `sequence`. It is valid until every rank has left.
  ThreadRendezvous& enter(uint64_t sequence) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<ThreadRendezvous>& rendezvous = active_[sequence];
    if (!rendezvous) rendezvous = acquire();
    return *rendezvous;
  }

  void leave(uint64_t sequence) {
    const std::lock_guard lock(mutex_);
    const auto found = active_.find(sequence);
    ThreadRendezvous& rendezvous = *found->second;
    if (++rendezvous.left < ranks_) return;
    rendezvous.left = 0;
    rendezvous.entered.store(0, std::memory_order_relaxed);
    free_.push_back(std::move(found->second));
    active_.erase(found);
  }

  /// Returns the group of the ranks' duplicates number `number` of this communicator.
  std::shared_ptr<ThreadGroup> duplicate(uint64_t number) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<ThreadGroup>& group = duplicates_[number];
    if (!group) group = std::make_shared<ThreadGroup>(ranks_, failure_);
    return group;
  }

 private:
  std::unique_ptr<ThreadRendezvous> acquire() {
    if (free_.empty()) return std::make_unique<ThreadRendezvous>(ranks_);
    std::unique_ptr<ThreadRendezvous> rendezvous = std::move(free_.back());
    free_.pop_back();
    return rendezvous;
  }

  const int ranks_;
  const std::shared_ptr<FirstFailure> failure_;
  std::mutex mutex_;
  std::map<uint64_t, std::unique_ptr<ThreadRendezvous>> active_;
  std::vector<std::unique_ptr<ThreadRendezvous>> free_;
  std::map<uint64_t, std::shared_ptr<ThreadGroup>> duplicates_;
};

}  // namespace dlrm::comm
