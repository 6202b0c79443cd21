#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "dlrm/comm/communicator.h"

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
  std::atomic<WaitPolicy> wait_policy_;
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
