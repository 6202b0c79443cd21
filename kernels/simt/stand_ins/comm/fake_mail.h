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

/// Transfers for the stand-in for NCCL if the peers' calls are unknown when a call is made: within
/// graphs, and between processes. A call names the sender and the receiver. Messages are matched
/// when the operations run. Each call adds operations to `stream`. They run under the emulator's
/// lock, which also protects this object. An operation keeps `owner` for as long as it exists.
class FakeMail : public std::enable_shared_from_this<FakeMail> {
 public:
  using Bytes = std::vector<char>;
  using Owner = std::shared_ptr<const void>;
  /// Receives every rank's part, in rank order.
  using Finish = std::function<void(const std::vector<Bytes>& parts)>;

  /// If `folder` is empty, ranks are threads of this process. Otherwise they exchange files in
  /// `folder`, which is created if it is missing.
  FakeMail(int ranks, std::string folder);

  void send(int from, int to, const void* data, size_t bytes, cudaStream_t stream, Owner owner);
  void receive(int from, int to, void* data, size_t bytes, cudaStream_t stream, Owner owner);
  /// Gatherings are matched by the order in which they run on each rank.
  void gather(int rank, const void* data, size_t bytes, Finish finish, cudaStream_t stream,
              Owner owner);
  /// Stops all waiting. Nothing arrives afterwards.
  void end() { ended_ = true; }
  bool between_processes() const { return !folder_.empty(); }

 private:
  enum Kind : int { kLetter, kPart };
  using Channel = std::tuple<int, int, int>;  ///< kind, from, to

  void put(const Channel& channel, Bytes bytes);
  /// True if the next message of a channel has arrived.
  bool has(const Channel& channel);
  Bytes take(const Channel& channel);
  std::string file_of(const Channel& channel, uint64_t number) const;

  const int ranks_;
  const std::string folder_;
  std::atomic<bool> ended_{false};
  std::map<Channel, uint64_t> sent_, taken_;
  std::map<std::pair<Channel, uint64_t>, Bytes> mail_;  ///< between threads
};

}  // namespace dlrm
