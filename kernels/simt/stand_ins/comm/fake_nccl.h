#pragma once
#include <atomic>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace dlrm {

/// Test controls of the stand-in for NCCL. Its ranks are threads of one process that share the
/// emulated GPU. Its communicators report ncclInProgress until the peers have joined, like NCCL's.
/// A rank's second communicator is refused unless NCCL_LAUNCH_ORDER_IMPLICIT is 1: on GPUs, kernels
/// of two communicators that are launched in different orders may wait for each other forever. From
/// version 2.26 on, a communicator ends only once no graph holds calls of it: its finalize stays
/// ncclInProgress, and its destroy and its abort block.
struct FakeNccl {
  /// While true, every communicator reports ncclSystemError.
  static std::atomic<bool> network_down;
  /// The version of the library.
  static std::atomic<int> version;
  /// The rank whose sends are refused, -1 for none.
  static std::atomic<int> refused_sender;
  /// Returns and clears the calls for the communicators of this thread, except those that only
  /// query a state. Calls that block, or come too early, say so.
  static std::vector<std::string> take_calls();
  /// Returns and clears the bytes that this thread has sent, by peer.
  static std::map<int, size_t> take_sent();
};

}  // namespace dlrm
