#pragma once
#include <optional>
#include <string>

#include "dlrm/comm/world.h"
#include "dlrm/config/run_config.h"

namespace dlrm {

/// What dlrm-train is asked to do, beyond the config.
struct RunOptions {
  RunConfig config;
  std::optional<std::string> resume;  ///< "" = checkpoint.directory
  std::string init_from;
  std::string profile;  ///< Chrome trace to write, or empty
  bool eval_only = false;
  bool overwrite = false;
  bool check = false;
};

/// A whole run of one rank: plan, data, training, evaluation, checkpoints, the run's directory.
/// Every rank of `comm` calls it with the same options. `world` gives the watchdog; null where
/// ranks are threads. Returns kDone or kStopped; everything else is thrown.
ExitCode run_training(Communicator& comm, World* world, const RunOptions& options);

}  // namespace dlrm
