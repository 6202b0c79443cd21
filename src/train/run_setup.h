#pragma once
#include <memory>
#include <optional>
#include <string>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/log.h"
#include "dlrm/plan/plan.h"
#include "dlrm/train/checkpoint.h"
#include "dlrm/train/machine.h"
#include "dlrm/train/run.h"

namespace dlrm {

/// The checkpoint that a run starts from.
struct StartingPoint {
  std::string path;            ///< empty: from the seed
  bool resumed = false;        ///< optimizer state and position too; else weights only
  bool clears_folder = false;  ///< --overwrite: earlier checkpoints of checkpoint.directory go
  CheckpointState state;
};

/// Throws usage_error where a rank was given another config or other options than rank 0: ranks
/// that do not ask for the same would wait for one another, or train different models.
void check_alike(Communicator& comm, const RunOptions& options);
/// The same for the plan, which may come from a file.
void check_alike(Communicator& comm, const Plan& plan, const ModelConfig& model);

/// Finds what --resume, --init-from or --eval-only ask for, and checks that it fits the config. A
/// start that does not continue the checkpoints of checkpoint.directory is refused without
/// --overwrite.
StartingPoint find_start(Communicator& comm, const Log& log, const RunOptions& options);

/// What ranks plan with so that all make the same plan: the least memory that any of them has.
/// Collective.
PlanOptions agreed_options(Communicator& comm, const PlanOptions& own);

/// The checkpoint's plan where it still fits, else a new one; tiers are chosen anew.
Plan choose_plan(Communicator& comm, const Log& log, const RunConfig& config,
                 const StartingPoint& start, const PlanOptions& options);

/// Throws usage_error, after printing the memory table on rank 0, where `options`, what a rank
/// may use, are too little.
void check_memory(const Log& log, const RunConfig& config, const Plan& plan,
                  const PlanOptions& options);

}  // namespace dlrm
