#pragma once
#include <cstdint>

#include "dlrm/config/run_config.h"
#include "dlrm/plan/plan.h"
#include "dlrm/plan/simulate.h"

namespace dlrm::bench {

/// The costs of a program that runs several operations for each input of a table. Seconds.
struct UnfusedCosts {
  double id = 0;           ///< for an id that a rank looks up and updates
  double element = 0;      ///< for each column of such a row
  double input = 0;        ///< for an input of a table on a rank
  double model_input = 0;  ///< for an input of any rank, whose vectors every rank receives
};

/// The placement "memory balanced" of NVIDIA-Merlin/distributed-embeddings: tables with more than
/// `largest_slice` elements are cut by columns into a power of two of slices. The slices are sorted
/// by size, and dealt to the ranks in turn, forwards and then backwards.
Plan memory_balanced_plan(const ModelConfig& model, int world, double largest_slice);

/// Simulates a step of a program in which nothing but sums of dense gradients overlaps: lookups,
/// the exchange of vectors, the dense layers, the exchange of gradients, updates. The dense layers
/// and exchanges have the rates of the machine of `config.sharding.machine`. Ids are not exchanged.
StepPrediction simulate_unfused_step(const RunConfig& config, const Plan& plan,
                                     const PlanOptions& options, const UnfusedCosts& costs);

}  // namespace dlrm::bench
