#pragma once
#include "dlrm/comm/communicator.h"
#include "dlrm/device/device.h"

namespace dlrm::test {

/// A rank with a device.
struct DeviceRank {
  Communicator& host;
  Communicator& wire;  ///< among the devices
  Device& device;
};

// Each function compares one collective on device memory with the host communicator, bitwise, and
// throws run_error if they differ. Work is queued on a stream before and after, without
// synchronisation. Collective. If `exact` is false, values are chosen such that sums have the same
// bits in every order of addition.

void check_device_alltoallv(const DeviceRank& rank);
void check_device_allgatherv(const DeviceRank& rank);
void check_device_broadcast(const DeviceRank& rank);
void check_device_allreduce(const DeviceRank& rank, bool exact);
void check_device_bf16_allreduce(const DeviceRank& rank);
void check_device_calls_in_flight(const DeviceRank& rank);
void check_device_calls_in_turn(const DeviceRank& rank);
void check_device_duplicates(const DeviceRank& rank);
void check_device_everything(const DeviceRank& rank, bool exact);

}  // namespace dlrm::test
