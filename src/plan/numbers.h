#pragma once
#include <algorithm>
#include <concepts>
#include <cstdint>
#include <vector>

#include "dlrm/config/run_config.h"

namespace dlrm {

double real(std::integral auto value) { return static_cast<double>(value); }

inline const TableConfig& table_of(const RunConfig& config, int table) {
  return config.model.tables[static_cast<size_t>(table)];
}

/// True if it stands in the list, which is ascending.
inline bool is_listed(const std::vector<int>& tables, int table) {
  return std::binary_search(tables.begin(), tables.end(), table);
}

}  // namespace dlrm
