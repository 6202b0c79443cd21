#pragma once
#include <atomic>
#include <string>
#include <vector>

namespace dlrm {

/// What tests do to the stand-in for NCCL, whose ranks are threads of one process that share the
/// emulated GPU. Like NCCL's, its communicators answer ncclInProgress until the peers are there.
struct FakeNccl {
  /// While true, every communicator reports ncclSystemError.
  static std::atomic<bool> network_down;
  /// The rank whose sends are refused; -1: none.
  static std::atomic<int> refused_sender;
  /// What this thread called since it asked last, those calls apart that only look at a state.
  static std::vector<std::string> take_calls();
};

}  // namespace dlrm
