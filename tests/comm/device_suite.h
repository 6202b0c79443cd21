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

// Each checks one collective on device memory, bitwise against the host communicator, with work
// queued on a stream before and after and no synchronisation between, and throws run_error where it
// differs. `exact`: sums too are bitwise the host's; else values are chosen so that any order of
// adding gives the same sum. Collective.

void check_device_alltoallv(const DeviceRank& rank);
void check_device_allgatherv(const DeviceRank& rank);
void check_device_broadcast(const DeviceRank& rank);
void check_device_allreduce(const DeviceRank& rank, bool exact);
void check_device_bf16_allreduce(const DeviceRank& rank);
void check_device_reduce_scatter(const DeviceRank& rank, bool exact);
void check_device_calls_in_flight(const DeviceRank& rank);
void check_device_duplicates(const DeviceRank& rank);
void check_device_everything(const DeviceRank& rank, bool exact);

}  // namespace dlrm::test
