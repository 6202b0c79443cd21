#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/plan/machine.h"
#include "dlrm/plan/simulate.h"

namespace dlrm::bench {

struct SimulateOptions {
  std::string config_path;
  RunConfig config;  ///< names the machine file
  std::vector<int> ranks;
  int ranks_per_node = 0;    ///< 0: the machine file's
  double device_memory = 0;  ///< bytes of a rank that the plan may use; 0: not known
  std::string like;          ///< file of published times: with that program's placement and costs
};

/// A number of ranks, with the plan that it would have.
struct SimulatedPoint {
  int ranks = 0;
  StepPrediction prediction;
  double memory = 0;  ///< bytes that the fullest rank needs
};

struct SimulateResult {
  Machine machine;
  std::string program;  ///< whose steps were simulated
  std::vector<SimulatedPoint> points;
};

/// "1,8,64", or "1..64" by doubling.
std::vector<int> parse_ranks(std::string_view text);

SimulateResult run_simulate(const SimulateOptions& options);

std::string to_table(const SimulateOptions& options, const SimulateResult& result);
std::string to_json(const SimulateOptions& options, const SimulateResult& result);

}  // namespace dlrm::bench
