#pragma once
#include <cstdint>
#include <string>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/trace.h"

namespace dlrm {

/// Writes every rank's spans as one Chrome trace (chrome://tracing, Perfetto): a track a rank,
/// lined up by the ranks' time of day. At most `most_events` spans in all; each rank keeps its
/// first ones, and the file and a warning say how many are missing. Collective; an error of writing
/// is a run_error on every rank.
void write_trace(Communicator& comm, const Trace& trace, const std::string& path,
                 int64_t most_events = 2'000'000);

/// Throws usage_error on every rank where rank 0 cannot write a trace to `path`, before the run
/// that it is to be of. Collective.
void check_trace_path(Communicator& comm, const std::string& path);

}  // namespace dlrm
