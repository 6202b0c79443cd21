#pragma once
#include <memory>
#include <optional>
#include <string>

#include "dlrm/comm/context.h"
#include "dlrm/comm/world.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/plan/plan.h"
#include "dlrm/train/run.h"
#include "dlrm/train/run_directory.h"
#include "dlrm/train/stop_signal.h"
#include "dlrm/train/trainer.h"

#include "job_locks.h"
#include "run_setup.h"
#include "training_run.h"

namespace dlrm {

/// The sources of a run. An evaluation without training needs no training data.
struct Sources {
  std::unique_ptr<BatchSource> train, test;
  const BatchSource& main() const { return train ? *train : *test; }
};

/// The plan of a run, and the configs that it was made of.
struct PlannedRun {
  RunConfig trained;  ///< the given one, in which the tables to cache are chosen
  RunConfig planned;  ///< the same with a known device, which decides formulas of the plan
  Plan plan;
};

/// A run that is ready to start.
struct ReadyRun {
  World& world;
  Context& context;
  JobLocks& locks;
  const RunOptions& options;
  const PlannedRun& planned;
  const Sources& sources;
  const StartingPoint& start;
  const StopSignal& stop;
  Trainer& trainer;
  RunDirectory& directory;
  bool writes;  ///< to the directory
  int threads;
  std::string began;  ///< time of day in UTC
};

/// Restores, trains, evaluates, saves and reports. Resets `loading` once all is loaded. Collective.
ExitCode run_to_end(const ReadyRun& ready, std::optional<WatchdogPause>& loading);

}  // namespace dlrm
