#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/parallel.h"

#include "block_pool.h"
#include "call_pool.h"
#include "comm/control/monitor.h"
#include "wait_policy.h"

namespace dlrm::comm {

class Call;

/// Progress of one rank's calls in flight, on a communicator and its duplicates. A poll of any call
/// makes progress on all of them, so that ranks may wait for calls in different orders.
class ProgressEngine {
 public:
  explicit ProgressEngine(WaitPolicy policy) : wait_policy_(policy) {}

  void add(Call& call);
  void remove(Call& call);
  /// Steps every call in flight once. Does nothing if called from a step.
  void advance();
  void back_off(int64_t polls) const;
  void set_wait_policy(WaitPolicy policy) { wait_policy_.store(policy, std::memory_order_relaxed); }
  /// From now on the calling thread divides large sums and copies among `threads` threads. They
  /// must be as many as in its other parallel regions: OpenMP's library ends and makes threads
  /// whenever the size of a team changes.
  void set_threads(int threads);
  /// Calls body(begin, end) for parts of [0, size). An item moves `bytes` bytes.
  template <class Body>
  void divide(int64_t size, int64_t bytes, const Body& body) const {
    constexpr int64_t kGrain = 256 * 1024;  // bytes of a part, so that a region is worth entering
    parallel_ranges(team(), size, bytes, kGrain, body);
  }
  /// Copies bytes, with all threads if there are many.
  void copy(void* to, const void* from, int64_t bytes) const;
  /// Guards the calls in flight and all that their steps use. A step runs under it.
  std::recursive_mutex& mutex() { return mutex_; }
  const std::shared_ptr<CallPool>& call_pool() const { return call_pool_; }
  /// Temporary memory of calls.
  BlockPool<HeapMemory>& buffers() { return buffers_; }
  /// Use under mutex() only.
  NodeTraffic& node_traffic() { return node_traffic_; }

  /// Notes that a call was destroyed before it was done. From then on this rank's calls no longer
  /// match those of other ranks.
  void abandon() { abandoned_.store(true); }
  bool abandoned() const { return abandoned_.load(); }

  Monitor& monitor() { return monitor_; }

 private:
  /// The threads among which the calling thread may divide work.
  int team() const;

  std::atomic<WaitPolicy> wait_policy_;
  int threads_ = 1;
  std::thread::id leader_;  // of these threads
  std::recursive_mutex mutex_;
  const std::shared_ptr<CallPool> call_pool_ = std::make_shared<CallPool>();
  std::vector<Call*> calls_;
  bool advancing_ = false;
  std::atomic<bool> abandoned_{false};
  HeapMemory heap_;
  BlockPool<HeapMemory> buffers_{heap_};
  NodeTraffic node_traffic_;
  Monitor monitor_;
};

}  // namespace dlrm::comm
