#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

namespace dlrm {

/// What ranks send one another from within graphs: who sends to whom is fixed when a graph is
/// captured, what meets whom when it runs. Each call adds operations to `stream`, which run, and
/// touch the rest of this, under the emulator's lock.
class FakeMail : public std::enable_shared_from_this<FakeMail> {
 public:
  using Bytes = std::vector<char>;
  /// Receives every rank's part, in rank order.
  using Finish = std::function<void(const std::vector<Bytes>& parts)>;

  explicit FakeMail(int ranks) : shown_(ranks, 0), taken_(ranks, 0) {}

  void send(int from, int to, const void* data, size_t bytes, cudaStream_t stream);
  void receive(int from, int to, void* data, size_t bytes, cudaStream_t stream);
  /// The ranks' gatherings meet in the order in which they run on each of them.
  void gather(int rank, const void* data, size_t bytes, Finish finish, cudaStream_t stream);
  /// Nothing waits any more, and nothing arrives.
  void end() { ended_ = true; }

 private:
  struct Gathering {
    std::map<int, Bytes> parts;
    size_t taken = 0;
  };

  std::atomic<bool> ended_{false};
  std::map<std::pair<int, int>, std::deque<Bytes>> mail_;
  std::map<uint64_t, Gathering> gatherings_;
  std::vector<uint64_t> shown_, taken_;
};

}  // namespace dlrm
