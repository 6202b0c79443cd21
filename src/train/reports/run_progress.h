#pragma once
#include <cstdint>
#include <optional>

#include "dlrm/device/utilisation.h"
#include "dlrm/embedding/cache_counters.h"

namespace dlrm {

/// Bytes that one rank has sent.
struct SentBytes {
  int64_t by_embeddings = 0;
  int64_t between_nodes = 0;  ///< in calls of the hosts' communicators
  SentBytes& operator+=(const SentBytes& other) {
    by_embeddings += other.by_embeddings;
    between_nodes += other.between_nodes;
    return *this;
  }
  SentBytes operator-(const SentBytes& other) const {
    return {by_embeddings - other.by_embeddings, between_nodes - other.between_nodes};
  }
};

/// The progress of a run, and the figures of its training loop for the summary.
struct RunProgress {
  int64_t step = 0;          ///< steps done, those of resumed runs included
  int64_t samples = 0;       ///< trained on, those of resumed runs included
  int64_t samples_here = 0;  ///< trained on by this process
  double loss = 0;           ///< of the last step
  double wait_seconds = 0;   ///< time that steps waited for data
  double loop_seconds = 0;   ///< of training steps, without evaluations and checkpoints
  double cpu_utilization = 0;
  SentBytes sent;                  ///< in steps; counted like dropped_ids
  int64_t dropped_ids = 0;         ///< of this rank's samples; of all ranks at the end of the run
  int64_t recorded_steps = 0;      ///< replayed as graphs
  std::optional<Utilisation> gpu;  ///< over the training loop, if the driver has figures
  std::optional<CacheCounters> cache;  ///< of the training loop; of all ranks at the end of the run
  bool stopped = false;
};

/// True if `step` is a multiple of `every`. Always false if `every` is 0.
inline bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

}  // namespace dlrm
