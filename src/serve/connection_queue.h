#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <httplib.h>

#include "counters.h"

namespace dlrm::serve {

/// Serves at most `most` connections at a time, each on a thread. The server accepts no other
/// connection until one of these ends; further ones wait in the system's queue.
class ConnectionQueue final : public httplib::TaskQueue {
 public:
  ConnectionQueue(int most, Counters& counters);
  void enqueue(std::function<void()> connection) override;
  /// Waits for the connections.
  void shutdown() override;

 private:
  void run();

  const size_t most_;
  Counters& counters_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  size_t open_ = 0;  // served, or in waiting_
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dlrm::serve
