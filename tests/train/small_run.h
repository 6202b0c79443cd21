#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// What a few steps of training on ranks-as-threads left: the losses, and every tensor whole.
struct Trained {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> tensors;
  int64_t launched = 0;                             ///< steps launched as graphs
  std::vector<std::pair<size_t, uint64_t>> memory;  ///< bytes in use and frees after each step
};

/// Trains `steps` steps of `config` on `ranks` threads with the plan of config.sharding, on the
/// device of config.device, a CPU with one compute thread each; with `reference` on the fp64
/// execution, with `recorded` by graphs where steps recur.
Trained train_on_threads(const RunConfig& config, int ranks, int steps, bool reference = false,
                         bool recorded = false);

/// Trains a batch of which an id of the first feature is spoilt on the device, after all that looks
/// at ids has seen it; returns the error of each step. On a device that is no CPU.
std::vector<std::string> errors_of_a_spoilt_id(const RunConfig& config, int ranks);

/// Compares tensor by tensor: |a - b| <= tolerance · (1 + |b|).
void expect_alike(const Trained& a, const Trained& b, double loss_tolerance,
                  double weight_tolerance);

/// A model of odd shapes: a table of one row, one narrower than the ranks, a shared one, variable
/// hotness. On a CPU.
RunConfig odd_model();

}  // namespace dlrm
