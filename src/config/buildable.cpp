#include "dlrm/config/buildable.h"

#include "dlrm/core/error.h"

#include "names.h"

namespace dlrm {
namespace {

template <class E>
std::string word_for(const Names<E>& names, E value) {
  return choice(names).write(value)->text;
}

void check_tables(const ModelConfig& model) {
  for (const TableConfig& table : model.tables) {
    if (table.dtype == DType::kFloat32) continue;
    throw usage_error("table {}: dtype {}: not built yet; use fp32", table.name,
                      name_of(table.dtype));
  }
}

void check_tier(const std::string& key, MemoryTier tier) {
  if (tier != MemoryTier::kCached) return;
  throw usage_error("{}: cached: not built yet; use auto, device or host", key);
}

}  // namespace

void check_buildable(const RunConfig& config) {
  if (config.model.activation != Activation::kRelu) {
    throw usage_error("model.activation: {}: not built yet; use relu",
                      word_for(kActivationNames, config.model.activation));
  }
  check_tables(config.model);
  check_tier("memory.tier", config.memory.tier);
  for (const auto& [table, tier] : config.memory.tables) check_tier("memory.tables." + table, tier);
}

}  // namespace dlrm
