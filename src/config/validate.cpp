#include "validate.h"

#include <map>
#include <set>

#include <fmt/format.h>

#include "dlrm/core/error.h"
#include "dlrm/core/nearest.h"

namespace dlrm {
namespace {

/// The expanded table names for each name that a config may use.
struct TableNames {
  std::set<std::string> tables;
  std::map<std::string, std::vector<std::string>> groups;

  explicit TableNames(const ModelConfig& model) {
    for (const TableConfig& table : model.tables) {
      tables.insert(table.name);
      groups[table.group].push_back(table.name);
    }
  }

  std::string hint_for(const std::string& word) const {
    std::vector<std::string> known;
    for (const auto& [group, members] : groups) known.push_back(group);
    return dlrm::hint_for(word, known);
  }
};

template <class V>
std::map<std::string, V> expanded(const std::map<std::string, V>& written, const TableNames& names,
                                  const Node& root, const std::string& key) {
  std::map<std::string, V> out;
  for (const auto& [name, value] : written) {
    if (names.tables.contains(name)) out[name] = value;
  }
  for (const auto& [name, value] : written) {
    if (names.tables.contains(name)) continue;
    const auto group = names.groups.find(name);
    if (group == names.groups.end()) {
      throw usage_error("{}: {} names {}, which is no table; {}",
                        place_of(root, key + "." + name).text(), key, name, names.hint_for(name));
    }
    for (const std::string& member : group->second) out.emplace(member, value);
  }
  return out;
}

/// Tables of another width than embedding_dim are projected to it. A dense side of another width is
/// more likely a mistake.
void check_equal_widths(const char* interaction, const ModelConfig& model, const Node& root) {
  if (model.projected_features().empty() || model.projected_width() == model.embedding_dim) return;
  const char* const dense = model.bottom_mlp.empty() ? "model.dense_features, with no bottom MLP"
                                                     : "the last of bottom_mlp";
  throw usage_error(
      "{}: interaction {} needs a dense side as wide as model.embedding_dim, {}; it has {} ({})",
      place_of(root, "model.interaction").text(), interaction, model.embedding_dim,
      model.projected_width(), dense);
}

void check_limit(const OptionLimit& option, const Node& root) {
  if (option.value <= option.limit) return;
  const std::string key = fmt::format("model.interaction.{}", option.key);
  throw usage_error("{}: {} is {}: needs at most {}, {}", place_of(root, key).text(), key,
                    option.value, option.what, option.limit);
}

template <class Interaction>
void check_interaction(const Interaction& interaction, const ModelConfig& model, const Node& root) {
  if (interaction.kNeedsEqualWidths) check_equal_widths(interaction.kName, model, root);
  const InteractionInputs inputs = model.interaction_inputs();
  if constexpr (requires { interaction.limits(inputs); }) {
    for (const OptionLimit& option : interaction.limits(inputs)) check_limit(option, root);
  }
}

/// A setting of hidden layers would be ignored without any, so it is more likely a mistake.
void check_hidden_layers(const char* key, bool is_set, bool has_any, const char* mlp,
                         const Node& root) {
  if (!is_set || has_any) return;
  throw usage_error("{}: {} is for hidden layers, and {} has none: leave it out",
                    place_of(root, key).text(), key, mlp);
}

void check_experts(const ModelConfig& model, const Node& root) {
  const ExpertsConfig& experts = model.experts;
  const auto refuse = [&](const char* what) {
    throw usage_error("{}: {}", place_of(root, "model.experts").text(), what);
  };
  if (experts.count == 1) refuse("model.experts.count is 1: needs 2 or more, or 0 for none");
  if ((experts.count > 0) == experts.layers.empty()) {
    refuse("model.experts has count or layers alone: needs both");
  }
  if (experts.count > 0 && model.tasks.empty()) {
    refuse("model.experts are shared by several tasks: needs model.tasks, or leave it out");
  }
}

void check_tasks(const ModelConfig& model, const Node& root) {
  for (size_t t = 0; t < model.tasks.size(); ++t) {
    const TaskConfig& task = model.tasks[t];
    if (task.tower.back() == 1) continue;
    throw usage_error("{}: the tower of task {} ends with {}: needs 1 as its last width, the logit",
                      place_of(root, fmt::format("model.tasks.{}.tower", t)).text(), task.name,
                      task.tower.back());
  }
}

void check_model(const ModelConfig& model, const Node& root) {
  if (model.top_mlp.back() != 1) {
    throw usage_error("{}: model.top_mlp ends with {}: needs 1 as its last width, the logit",
                      place_of(root, "model.top_mlp").text(), model.top_mlp.back());
  }
  check_tasks(model, root);
  check_experts(model, root);
  const bool bottom = model.bottom_mlp.size() > 1;
  bool top = model.experts.layers.size() > 1;
  for (const Tower& tower : model.towers()) top |= tower.layers.size() > 1;
  const char* const above = model.tasks.empty()        ? "model.top_mlp"
                            : model.experts.count == 0 ? "each tower"
                                                       : "each tower and expert";
  check_hidden_layers("model.dropout.bottom", model.dropout.bottom > 0, bottom, "model.bottom_mlp",
                      root);
  check_hidden_layers("model.dropout.top", model.dropout.top > 0, top, above, root);
  check_hidden_layers("model.layer_norm.bottom", model.layer_norm.bottom, bottom,
                      "model.bottom_mlp", root);
  check_hidden_layers("model.layer_norm.top", model.layer_norm.top, top, above, root);
  std::visit([&](const auto& i) { check_interaction(i, model, root); }, model.interaction);
  if (model.interaction_width() == 0) {
    throw usage_error(
        "{}: interaction dot has no product: needs dense features, or at least two features",
        place_of(root, "model.interaction").text());
  }
}

void check_penalties(const RunConfig& config, const Node& root) {
  if (config.train.sparse_optimizer.type != OptimizerRule::kFtrl) return;
  for (const TableConfig& table : config.model.tables) {
    if (table.l2 < 0) continue;
    throw usage_error(
        "{}: table {} has an l2 of its own, and train.sparse_optimizer is ftrl: needs another "
        "optimizer, or train.sparse_optimizer.l2",
        place_of(root, "model.tables").text(), table.group);
  }
}

/// `key` names a feature with one id, or nothing.
void check_one_id(const char* key, const std::string& name, const ModelConfig& model,
                  const Node& root) {
  if (name.empty()) return;
  const std::string place = place_of(root, key).text();
  for (const TableConfig& table : model.tables) {
    for (const FeatureConfig& feature : table.features) {
      if (feature.name != name) continue;
      if (feature.hotness == 1) return;
      throw usage_error("{}: {} is {}, whose hotness is {}: needs a feature with one id", place,
                        key, name, feature.hotness);
    }
  }
  throw usage_error("{}: {} is {}: needs the name of a feature of the model", place, key, name);
}

/// eval.task names a task, or nothing.
void check_deciding_task(const RunConfig& config, const Node& root) {
  const std::string& name = config.eval.task;
  if (name.empty()) return;
  const std::string place = place_of(root, "eval.task").text();
  if (config.model.tasks.empty()) {
    throw usage_error("{}: eval.task is {}, and the model has one label: needs model.tasks", place,
                      name);
  }
  std::vector<std::string> known;
  for (const TaskConfig& task : config.model.tasks) {
    if (task.name == name) return;
    known.push_back(task.name);
  }
  throw usage_error("{}: eval.task is {}, which is no task; {}", place, name,
                    hint_for(name, known));
}

void check_eval(const RunConfig& config, const Node& root) {
  check_deciding_task(config, root);
  check_one_id("eval.slice_by", config.eval.slice_by, config.model, root);
  check_one_id("eval.group_by", config.eval.group_by, config.model, root);
  if (config.checkpoint.keep_best == BestMetric::kGauc && config.eval.group_by.empty()) {
    throw usage_error("{}: checkpoint.keep_best is gauc: needs the groups, eval.group_by",
                      place_of(root, "checkpoint.keep_best").text());
  }
}

/// Weights travel with the ids that a host buckets, and they are in datasets.
void check_weights(const RunConfig& config, const Node& root) {
  if (!config.model.weighted()) return;
  if (config.routing.mode == RoutingMode::kFixed) {
    throw usage_error("{}: routing.mode is fixed, and ids of a feature have weights: needs exact",
                      place_of(root, "routing.mode").text());
  }
  const DataKind source = config.data.source;
  if (source == DataKind::kCriteo || source == DataKind::kParquet) {
    throw usage_error(
        "{}: data.source is {}, whose ids have no weights: needs hdf5, or features without weights",
        place_of(root, "data.source").text(), source == DataKind::kCriteo ? "criteo" : "parquet");
  }
}

/// The maximum of a bag is found on one rank, which therefore has all rows.
void check_whole_rows(const RunConfig& config, const Node& root) {
  const auto cuts_rows = [](Strategy strategy) {
    return strategy == Strategy::kRow || strategy == Strategy::kGrid;
  };
  for (const TableConfig& table : config.model.tables) {
    if (!table.pools_max()) continue;
    const auto own = config.sharding.tables.find(table.name);
    const bool is_own = own != config.sharding.tables.end();
    if (!cuts_rows(is_own ? own->second : config.sharding.strategy)) continue;
    const std::string key = is_own ? "sharding.tables." + table.group : "sharding.strategy";
    throw usage_error(
        "{}: {} cuts table {} by rows, and a feature of it has pooling max: needs table, column, "
        "data_parallel or auto",
        place_of(root, key).text(), key, table.name);
  }
}

void check_parquet(const RunConfig& config, const Node& root) {
  if (config.data.train.empty()) {
    throw usage_error(
        "{}: data.train is missing: needs Parquet files or folders (data.source is parquet)",
        place_of(root, "data.train").text());
  }
  if (config.data.schema.empty()) {
    throw usage_error(
        "{}: data.schema is missing: needs a schema as `dlrm-data import` takes it (data.source is "
        "parquet)",
        place_of(root, "data.schema").text());
  }
}

bool is_generated(const DataConfig& data) {
  return data.source == DataKind::kSynthetic ||
         (data.source == DataKind::kReplay && data.train.empty());
}

void check_validation(const RunConfig& config, const Node& root) {
  const std::string place = place_of(root, "data.valid").text();
  if (is_generated(config.data)) {
    throw usage_error(
        "{}: data.valid is set, and the data is generated: needs data.source hdf5, criteo or "
        "parquet",
        place);
  }
  const EvalConfig& eval = config.eval;
  if (eval.at_end || eval.every_steps > 0 || eval.every_epochs > 0) return;
  throw usage_error(
      "{}: data.valid is set, and nothing evaluates it: needs eval.every_steps, eval.every_epochs "
      "or eval.at_end",
      place);
}

}  // namespace

void resolve_table_overrides(RunConfig& config, const Node& root) {
  CachedConfig& cached = config.memory.cached;
  if (config.sharding.tables.empty() && config.memory.tables.empty() && cached.tables.empty()) {
    return;
  }
  const TableNames names(config.model);
  config.sharding.tables = expanded(config.sharding.tables, names, root, "sharding.tables");
  config.memory.tables = expanded(config.memory.tables, names, root, "memory.tables");
  cached.tables = expanded(cached.tables, names, root, "memory.cached.tables");
  for (const auto& [table, size] : cached.tables) {
    const MemoryTier tier = config.memory.tier_of(table);
    if (tier == MemoryTier::kCached || tier == MemoryTier::kAuto) continue;
    throw usage_error("{}: memory.cached.tables.{} is {}, but the table is not cached: needs {}",
                      place_of(root, "memory.cached.tables").text(), table, size,
                      "memory.tier or memory.tables to make it so");
  }
}

void validate(const RunConfig& config, const Node& root) {
  check_model(config.model, root);
  check_penalties(config, root);
  check_eval(config, root);
  check_weights(config, root);
  check_whole_rows(config, root);
  const DataConfig& data = config.data;
  if (data.source == DataKind::kHdf5 && data.train.empty()) {
    throw usage_error(
        "{}: data.train is missing: needs the path of a dataset (data.source is hdf5)",
        place_of(root, "data.train").text());
  }
  if (data.source == DataKind::kParquet) return check_parquet(config, root);
  if (data.source != DataKind::kCriteo) return;
  if (!config.model.tasks.empty()) {
    throw usage_error(
        "{}: model.tasks has {} tasks, and a Criteo log has one label: needs a dataset with "
        "several "
        "(docs/file-formats.md), data.source hdf5",
        place_of(root, "model.tasks").text(), config.model.tasks.size());
  }
  if (data.train.empty()) {
    throw usage_error(
        "{}: data.train is missing: needs the path of a Criteo log (data.source is criteo)",
        place_of(root, "data.train").text());
  }
  if (data.shuffle) {
    throw usage_error(
        "{}: data.shuffle is true, but data.source criteo reads text in its order: needs {}",
        place_of(root, "data.shuffle").text(), "false, or a dataset made by dlrm-data criteo");
  }
}

void check_evaluations(const RunConfig& config, const Node& root) {
  const EvalConfig& eval = config.eval;
  if (eval.every_steps > 0 && eval.every_epochs > 0) {
    throw usage_error("{}: eval.every_steps and eval.every_epochs are both set: set one",
                      place_of(root, "eval.every_epochs").text());
  }
  if (!config.data.valid.empty()) return check_validation(config, root);
  if (is_generated(config.data) || !config.data.test.empty()) return;
  std::string key;
  if (config.eval.stop_at_auc > 0) key = "eval.stop_at_auc";
  if (config.eval.patience > 0) key = "eval.patience";
  if (config.checkpoint.keep_best != BestMetric::kNone) key = "checkpoint.keep_best";
  if (key.empty()) return;
  throw usage_error(
      "{}: {} is set, and data.valid and data.test name no file: needs data to evaluate on",
      place_of(root, key).text(), key);
}

}  // namespace dlrm
