#pragma once
#include <vector>

#include "dlrm/config/run_config.h"

#include "schema.h"

namespace dlrm {

/// The largest number of steps: integers up to it are exact as doubles.
constexpr int64_t kMaxSteps = int64_t{1} << 53;

/// Declares all keys of a config.
const Schema<RunConfig>& run_schema();

Schema<ModelConfig> model_schema();
Schema<DataConfig> data_schema();
Schema<TrainConfig> train_schema();

/// The config before anything is read: all defaults.
RunConfig default_config();

/// The rows of the reference, in the order of the schema.
std::vector<KeyDoc> key_docs();

}  // namespace dlrm
