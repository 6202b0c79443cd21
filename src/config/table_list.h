#pragma once
#include <vector>

#include "dlrm/config/run_config.h"

#include "codec.h"

namespace dlrm {

/// Reads and writes `model.tables`. Every entry is a table, or `count` tables of the same shape:
/// <name>_0, <name>_1, ..., with the same suffixes on their features. Tables without their own
/// width have dim 0 after reading, until `set_default_dim` is called.
Codec<std::vector<TableConfig>> table_list();

void set_default_dim(std::vector<TableConfig>& tables, int64_t dim);

}  // namespace dlrm
