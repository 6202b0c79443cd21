#pragma once
#include "dlrm/comm/communicator.h"

namespace dlrm::bench {

/// Seconds of a processor for an id of synthetic data, with its part of dense features and labels:
/// samples of 26 ids and 13 dense features. One thread of each rank makes them, for `seconds`; of
/// the slowest rank. Collective.
double measure_draws(Communicator& comm, double seconds);

}  // namespace dlrm::bench
