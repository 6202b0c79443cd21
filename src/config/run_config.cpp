#include "dlrm/config/run_config.h"

#include <algorithm>
#include <set>
#include <utility>

#include "dlrm/core/error.h"
#include "dlrm/core/file.h"

#include "overrides.h"
#include "run_schema.h"
#include "validate.h"

namespace dlrm {
namespace {

constexpr size_t kLongestFile = size_t{16} << 20;

// Lists leaves by their dotted keys. Items of a list of maps are keyed by name, so that an
// additional table does not change the keys of later ones.
void flatten(const Node& node, const std::string& key, std::map<std::string, std::string>& out) {
  if (node.is_map()) {
    for (const Entry& entry : node.entries) flatten(*entry.value, dotted(key, entry.key), out);
    return;
  }
  if (!node.is_list() || node.items.empty() || !node.items[0]->is_map()) {
    out[key] = emit_inline(node);
    return;
  }
  std::string order;
  for (const NodePtr& item : node.items) {
    const NodePtr name = item->find("name");
    order += name->text + " ";
    flatten(*item, dotted(key, name->text), out);
  }
  out[key] = order;
}

std::map<std::string, std::string> flattened(const RunConfig& config) {
  std::map<std::string, std::string> out;
  flatten(*run_schema().write(config), "", out);
  return out;
}

bool may_change(std::string key, const std::set<std::string>& changeable) {
  while (!changeable.contains(key)) {
    const size_t dot = key.rfind('.');
    if (dot == std::string::npos) return false;
    key.resize(dot);
  }
  return true;
}

/// The config, and what was written.
std::pair<RunConfig, NodePtr> parsed(const std::string& yaml, const std::string& name,
                                     const std::vector<std::string>& overrides) {
  NodePtr root = parse_yaml(yaml, name);
  if (root->is_null()) throw usage_error("{}: is empty: needs a YAML config", name);
  if (!root->is_map()) {
    throw usage_error("{}: is {}: needs a map with model, data, train", root->place.text(),
                      root->shown());
  }
  for (const std::string& text : overrides) root = with_override(root, text);
  RunConfig config = default_config();
  run_schema().read(*root, "", config);
  resolve_table_overrides(config, *root);
  validate(config, *root);
  return {config, root};
}

}  // namespace

bool RunConfig::caches_tables() const {
  return memory.tier == MemoryTier::kCached ||
         std::any_of(memory.tables.begin(), memory.tables.end(),
                     [](const auto& table) { return table.second == MemoryTier::kCached; });
}

int RunConfig::batches_ahead() const {
  if (!caches_tables()) return routing.depth;
  return memory.cached.window > 0 ? memory.cached.window - 1 : routing.depth + 1;
}

DType RunConfig::compute_type() const {
  return train.precision == Precision::kBf16 ? DType::kBFloat16 : DType::kFloat32;
}

WireConfig RunConfig::sent_types() const {
  WireConfig types = train.wire;
  bool divides = false;
  for (const TableConfig& table : model.tables) {
    for (const FeatureConfig& feature : table.features) {
      divides |= feature.pooling == Pooling::kMean;
    }
  }
  if (!divides && compute_type() == DType::kBFloat16) types.backward = DType::kBFloat16;
  return types;
}

RunConfig parse_config(const std::string& yaml, const std::string& name,
                       const std::vector<std::string>& overrides) {
  return parsed(yaml, name, overrides).first;
}

RunConfig load_config(const std::string& path, const std::vector<std::string>& overrides) {
  const auto [config, root] = parsed(read_text(path, kLongestFile), path, overrides);
  check_evaluations(config, *root);
  return config;
}

std::string to_yaml(const RunConfig& config) { return emit_document(*run_schema().write(config)); }

std::string value_of(const RunConfig& config, const std::string& key) {
  NodePtr found = run_schema().write(config);
  for (size_t from = 0; found && from <= key.size();) {
    const size_t dot = std::min(key.find('.', from), key.size());
    found = found->find(std::string_view(key).substr(from, dot - from));
    from = dot + 1;
  }
  if (!found) throw usage_error("{}: no such key (docs/config.md lists them)", key);
  return emit_inline(*found);
}

std::vector<std::string> keys_that_block_resume(const RunConfig& saved, const RunConfig& now) {
  std::set<std::string> changeable;
  for (const KeyDoc& row : key_docs()) {
    if (row.may_change) changeable.insert(row.key);
  }
  const auto before = flattened(saved);
  const auto after = flattened(now);
  std::set<std::string> different;
  for (const auto& [key, value] : before) {
    const auto other = after.find(key);
    if (other == after.end() || other->second != value) different.insert(key);
  }
  for (const auto& [key, value] : after) {
    if (!before.contains(key)) different.insert(key);
  }
  std::erase_if(different, [&](const std::string& key) { return may_change(key, changeable); });
  return {different.begin(), different.end()};
}

}  // namespace dlrm
