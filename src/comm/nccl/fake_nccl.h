#pragma once
#include <atomic>

namespace dlrm {

/// What tests do to the stand-in for NCCL, whose ranks are threads of one process that share the
/// emulated GPU. Like NCCL's, its communicators answer ncclInProgress until the peers are there.
struct FakeNccl {
  /// While true, every communicator reports ncclSystemError.
  static std::atomic<bool> network_down;
};

}  // namespace dlrm
