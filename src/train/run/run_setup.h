#pragma once
#include <memory>
#include <optional>
#include <string>

#include "dlrm/comm/communicator.h"
#include "dlrm/comm/context.h"
#include "dlrm/core/log.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/plan/routed_plan.h"
#include "dlrm/train/checkpoint.h"
#include "dlrm/train/machine.h"
#include "dlrm/train/run.h"

namespace dlrm {

/// The checkpoint that a run starts from.
struct StartingPoint {
  std::string path;            ///< empty if weights are drawn from the seed
  bool resumed = false;        ///< with optimizer state and position; otherwise weights only
  bool clears_folder = false;  ///< --overwrite: removes earlier checkpoints of checkpoint.directory
  CheckpointState state;
};

/// The sources of a run. An evaluation without training needs no training data.
struct Sources {
  std::unique_ptr<BatchSource> train, valid, test;
  const BatchSource& main() const { return train ? *train : *test; }
};

/// The plan of a run, and the configs that it was made of.
struct PlannedRun {
  RunConfig trained;  ///< the given one, in which the tables to cache are chosen
  RunConfig planned;  ///< the same with a known device, which decides formulas of the plan
  Plan plan;
};

/// Throws usage_error if a rank's config or options differ from rank 0's. Such ranks would wait for
/// each other forever or train different models.
void check_alike(Communicator& comm, const RunOptions& options);
/// Like the function above, for the plan, which may come from a file, and its routing.
void check_alike(Communicator& comm, const RoutedPlan& routed, const ModelConfig& model);

/// Whether a run with this config saves checkpoints even if nobody asks it to stop.
bool saves_checkpoints(const CheckpointConfig& config);

/// The options with `train.global_batch_size: auto` resolved: to the batch size of the checkpoint
/// that --resume continues, and otherwise to the largest that `known` and the data allow. It is the
/// same on all ranks. Logs the choice and, if learning rates are scaled by it, their factor. If the
/// samples of the data had to be counted, `counted` becomes the source, of batches of one sample.
/// Collective.
RunOptions with_batch_size(Communicator& comm, const Log& log, const RunOptions& options,
                           const PlanOptions& known, std::unique_ptr<BatchSource>& counted);

/// `counted`: the source that with_batch_size() counted, or null.
Sources open_sources(Context& context, const RunOptions& options, const BatchSource* counted);

/// Finds the checkpoint that --resume, --init-from or --eval-only requests, and checks that it fits
/// the config. Refuses a start that does not continue the checkpoints of checkpoint.directory,
/// unless --overwrite is given.
StartingPoint find_start(Communicator& comm, const Log& log, const RunOptions& options);

/// Returns the checkpoint's plan if it still fits, otherwise a new one. Tiers and the mode of
/// routing are chosen again.
RoutedPlan choose_plan(Communicator& comm, const Log& log, const RunConfig& config,
                       const StartingPoint& start, const PlanOptions& options);

/// Makes the plan. Rank 0 prints it. Throws usage_error if it needs too much memory. Collective.
PlannedRun plan_run(const Context& context, const RunConfig& config, const StartingPoint& start,
                    const PlanOptions& known);

/// Throws usage_error if the memory in `options` is too small, after printing the memory table on
/// rank 0.
void check_memory(const Log& log, const RunConfig& config, const Plan& plan,
                  const PlanOptions& options);

}  // namespace dlrm
