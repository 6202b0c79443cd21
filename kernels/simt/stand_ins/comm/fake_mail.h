#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <cuda_runtime.h>

namespace dlrm {

/// What the stand-in for NCCL sends where the peers' calls are not at hand: from within graphs, and
/// between processes. Who sends to whom is fixed when a call is made, what meets whom when it runs.
/// Each call adds operations to `stream`, which run, and touch the rest of this, under the
/// emulator's lock.
class FakeMail : public std::enable_shared_from_this<FakeMail> {
 public:
  using Bytes = std::vector<char>;
  /// Receives every rank's part, in rank order.
  using Finish = std::function<void(const std::vector<Bytes>& parts)>;

  /// Among threads of this process where `folder` is empty; else through files in it, which is
  /// made where it is missing.
  FakeMail(int ranks, std::string folder);

  void send(int from, int to, const void* data, size_t bytes, cudaStream_t stream);
  void receive(int from, int to, void* data, size_t bytes, cudaStream_t stream);
  /// The ranks' gatherings meet in the order in which they run on each of them.
  void gather(int rank, const void* data, size_t bytes, Finish finish, cudaStream_t stream);
  /// Nothing waits any more, and nothing arrives.
  void end() { ended_ = true; }
  bool between_processes() const { return !folder_.empty(); }

 private:
  enum Kind : int { kLetter, kPart };
  using Channel = std::tuple<int, int, int>;  ///< kind, from, to

  void put(const Channel& channel, Bytes bytes);
  /// Whether the next of a channel is there.
  bool has(const Channel& channel);
  Bytes take(const Channel& channel);
  std::string file_of(const Channel& channel, uint64_t number) const;

  const int ranks_;
  const std::string folder_;
  std::atomic<bool> ended_{false};
  std::map<Channel, uint64_t> sent_, taken_;
  std::map<std::pair<Channel, uint64_t>, Bytes> mail_;  ///< among threads
};

}  // namespace dlrm
