#pragma once
#include <functional>
#include <memory>

#include "dlrm/comm/thread_comm.h"

#include "comm/device/nccl_comm.h"
#include "comm/device_suite.h"

namespace dlrm::test {

/// Runs `body` on threads as ranks, which share the emulated GPU and exchange through NCCL. Each
/// has a Device of its own: no rank waits for another one's streams.
inline void run_nccl(int ranks, const std::function<void(const DeviceRank&)>& body) {
  run_on_threads(ranks, [&](Communicator& host) {
    const std::shared_ptr<Device> device = make_cuda_device(0);
    const auto wire = comm::make_nccl_comm(host, *device);
    body({host, *wire, *device});
  });
}

}  // namespace dlrm::test
