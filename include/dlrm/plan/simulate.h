#pragma once
#include <string>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/plan/machine.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// The time of a training step as simulated from a machine's rates. Seconds.
struct StepPrediction {
  /// What a rank does under one name, in a step.
  struct Stage {
    std::string name;
    double most = 0;  ///< of the rank that takes longest; waiting is not counted
    int rank = -1;    ///< that takes longest; -1: an exchange of all ranks
    bool exchange = false;
  };
  /// A part of the longest chain of tasks, each of which begins when the one before ends.
  struct Link {
    std::string stage;
    int rank = -1;
    double seconds = 0;
  };

  double step = 0;            ///< from the end of a step to the end of the next one
  double exchange = 0;        ///< sum of all exchanges
  double exposed = 0;         ///< by how much the step would be shorter if exchanges took no time
  double local_bytes = 0;     ///< most that a rank exchanges within its node, one way
  double network_bytes = 0;   ///< most that a node exchanges with others, one way
  std::vector<Stage> stages;  ///< in the order of the step
  std::vector<Link> critical_path;  ///< from the end of the step before to the end of this one

  double hidden() const { return exchange > exposed ? exchange - exposed : 0; }
};

/// Simulates steps of `plan` on the machine of `config.sharding.machine` until they repeat. Reading
/// data that is not synthetic, evaluations and checkpoints are left out. Cached rows count as
/// resident. A usage_error if the machine file lacks a rate.
StepPrediction simulate_step(const RunConfig& config, const Plan& plan, const PlanOptions& options);

}  // namespace dlrm
