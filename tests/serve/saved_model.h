#pragma once
#include <string>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/data/samples.h"

namespace dlrm::serve {

struct Evaluated {
  Samples samples;
  std::vector<float> probabilities;  ///< [samples, labels]
};

/// Trains `config` for `step` steps on two ranks and saves the model in `directory`. Returns the
/// trainer's probabilities for samples of odd_batch().
Evaluated save_model(const RunConfig& config, const std::string& directory, int64_t step = 3);

/// The folder of a step below `directory`.
std::string folder_of(const std::string& directory, int64_t step = 3);

}  // namespace dlrm::serve
