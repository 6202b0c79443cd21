#pragma once
#include <optional>
#include <string>

#include "dlrm/comm/world.h"
#include "dlrm/config/run_config.h"
#include "dlrm/data/record_source.h"

namespace dlrm {

/// Options of dlrm-train that are not in the config.
struct RunOptions {
  RunConfig config;
  std::optional<std::string> resume;  ///< "" = checkpoint.directory
  std::string init_from;
  std::string profile;  ///< Chrome trace to write, or empty
  bool eval_only = false;
  std::string predict;  ///< with eval_only: the file of predictions to write, or empty
  std::optional<RecordsOptions> records;  ///< with predict: of these instead of data.test
  bool overwrite = false;
  bool check = false;
  std::string version;  ///< of the program, for the summary
  std::string command;  ///< the command line, for the summary
};

/// A whole run of one rank: plan, data, training, evaluation, checkpoints, the run's directory.
/// Every rank of `world` calls it with the same options. Returns kDone or kStopped. Every other
/// outcome is thrown.
ExitCode run_training(World& world, const RunOptions& options);

}  // namespace dlrm
