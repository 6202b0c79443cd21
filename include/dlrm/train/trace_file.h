#pragma once
#include <cstdint>
#include <string>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/trace.h"

namespace dlrm {

/// Writes every rank's spans as one Chrome trace (chrome://tracing, Perfetto): one track per rank,
/// aligned by time of day. At most `most_events` spans in all. Each rank keeps its first ones. The
/// file and a warning give the number of missing spans. Collective. A write error is a run_error on
/// every rank.
void write_trace(Communicator& comm, const Trace& trace, const std::string& path,
                 int64_t most_events = 2'000'000);

/// Throws usage_error on every rank if rank 0 cannot write a trace to `path`. Called before the
/// run. Collective.
void check_trace_path(Communicator& comm, const std::string& path);

}  // namespace dlrm
