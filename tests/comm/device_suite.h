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

/// Compares each collective on device memory with the host communicator, bitwise, and calls in
/// flight, in turn on two streams, and of duplicates. Throws run_error if they differ. Work is
/// queued on a stream before and after, without synchronisation. Collective. If `exact` is false,
/// values are chosen such that sums have the same bits in every order of addition.
void check_device_everything(const DeviceRank& rank, bool exact);

}  // namespace dlrm::test
