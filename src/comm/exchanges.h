#pragma once
#include "dlrm/comm/communicator.h"

namespace dlrm {

/// The exchange that brings rank q's bytes[q] bytes to receive + offsets[q] everywhere; its
/// sequence is still to be set.
Exchange gather_exchange(int rank, const void* send, void* receive, View<const int64_t> bytes,
                         View<const int64_t> offsets);

/// Copies a rank's block for itself where it is not there already.
void copy_own_block(const Exchange& exchange, int rank);

}  // namespace dlrm
