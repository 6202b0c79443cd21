#pragma once
#include <atomic>
#include <string>
#include <vector>

namespace dlrm {

/// Test controls of the stand-in for NCCL. Its ranks are threads of one process that share the
/// emulated GPU. Its communicators report ncclInProgress until the peers have joined, like NCCL's.
/// A rank's second communicator is refused unless NCCL_LAUNCH_ORDER_IMPLICIT is 1: on GPUs, kernels
/// of two communicators that are launched in different orders may wait for each other forever.
struct FakeNccl {
  /// While true, every communicator reports ncclSystemError.
  static std::atomic<bool> network_down;
  /// The version of the library.
  static std::atomic<int> version;
  /// The rank whose sends are refused, -1 for none.
  static std::atomic<int> refused_sender;
  /// Returns and clears the calls of this thread, except those that only query a state.
  static std::vector<std::string> take_calls();
};

}  // namespace dlrm
