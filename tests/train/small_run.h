#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/data/batch.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// What a few steps of training on ranks-as-threads left: the losses, and every tensor whole.
struct Trained {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> tensors;
  int64_t launched = 0;                             ///< steps launched as graphs
  std::vector<int64_t> sent;                        ///< bytes, by rank 0's embeddings
  std::vector<std::pair<size_t, uint64_t>> memory;  ///< bytes in use and frees after each step
};

/// Trains `steps` steps of `config` on `ranks` threads with the plan of config.sharding, on the
/// device of config.device, a CPU with one compute thread each; with `reference` on the fp64
/// execution, with `recorded` by graphs where steps recur.
Trained train_on_threads(const RunConfig& config, int ranks, int steps, bool reference = false,
                         bool recorded = false);

/// What is done to the trainer on the way: before a step of this number, where it is not negative.
struct OnTheWay {
  int evaluate = -1;  ///< infers a batch
  int resume = -1;    ///< puts a new trainer in its place, which takes over its tensors
};
Trained train_recorded(const RunConfig& config, int ranks, int steps, bool recorded,
                       OnTheWay on_the_way = {});

/// Trains a batch of which the first id that rank `spoilt` has on its device becomes 2^30 there,
/// after all that looks at ids has seen it; returns the error of each step. On a device that is no
/// CPU.
/// With `inferred` it is evaluated instead, and a rank without one has an empty text.
std::vector<std::string> errors_of_a_spoilt_id(const RunConfig& config, int ranks,
                                               bool inferred = false, int spoilt = 0);

/// Compares tensor by tensor: |a - b| <= tolerance · (1 + |b|).
void expect_alike(const Trained& a, const Trained& b, double loss_tolerance,
                  double weight_tolerance);

/// Batch t of a rank, with bags of any length, empty ones too, made from (t, sample) alone. Each
/// third is a partial one.
Batch odd_batch(const RunConfig& config, int64_t t, int rank, int world);

/// A model of odd shapes: a table of one row, one narrower than the ranks, a shared one, variable
/// hotness. On a CPU.
RunConfig odd_model();

/// A dense and a sparse optimizer.
struct OptimizerPair {
  OptimizerRule dense, sparse;
};
/// Pairs that hold every rule of kOptimizers in each of its uses. A rule of both uses is paired
/// with itself.
std::vector<OptimizerPair> optimizer_pairs();

/// The interactions that odd_model() does not have but could.
std::vector<InteractionConfig> other_interactions();

}  // namespace dlrm
