#include <algorithm>
#include <cmath>
#include <numbers>

#include "dlrm/config/run_config.h"

namespace dlrm {
namespace {

int64_t mlp_parameters(int64_t input, const std::vector<int64_t>& widths, bool layer_norm) {
  int64_t total = 0;
  for (const int64_t width : widths) {
    total += (input + 1) * width;
    input = width;
  }
  // Scale and shift of hidden layers.
  for (size_t i = 0; layer_norm && i + 1 < widths.size(); ++i) total += 2 * widths[i];
  return total;
}

}  // namespace

RowInit TableConfig::row_init() const {
  if (init.scale > 0) return {init.type, static_cast<float>(init.scale)};
  const bool uniform = init.type == InitType::kUniform;
  return {init.type,
          uniform ? static_cast<float>(1.0 / std::sqrt(static_cast<double>(rows))) : 0.01f};
}

void ModelConfig::add_linear_tables() {
  if (!linear) return;
  std::vector<TableConfig> weights;
  for (const TableConfig& table : tables) {
    for (const FeatureConfig& feature : table.features) {
      TableConfig& added = weights.emplace_back();
      added.name = added.group = "linear/" + feature.name;
      added.rows = table.rows;
      added.dim = 1;
      added.features = {feature};
      added.l2 = table.l2;
      added.init.type = InitType::kZero;
      added.is_linear = true;
    }
  }
  tables.insert(tables.end(), weights.begin(), weights.end());
}

ModelConfig ModelConfig::without_linear() const {
  ModelConfig model = *this;
  model.linear = false;
  std::erase_if(model.tables, [](const TableConfig& table) { return table.is_linear; });
  return model;
}

int64_t ModelConfig::linear_features() const {
  return std::count_if(tables.begin(), tables.end(),
                       [](const TableConfig& table) { return table.is_linear; });
}

bool TableConfig::weighted() const {
  return std::ranges::any_of(features, &FeatureConfig::weights);
}

bool TableConfig::pools_max() const {
  return std::ranges::any_of(
      features, [](const FeatureConfig& feature) { return feature.pooling == Pooling::kMax; });
}

bool ModelConfig::weighted() const { return std::ranges::any_of(tables, &TableConfig::weighted); }

int64_t ModelConfig::num_features() const {
  int64_t count = 0;
  for (const TableConfig& table : tables) count += static_cast<int64_t>(table.features.size());
  return count;
}

int64_t ModelConfig::embedding_width() const {
  int64_t width = 0;
  for (const TableConfig& table : tables) {
    width += table.dim * static_cast<int64_t>(table.features.size());
  }
  return width;
}

int64_t ModelConfig::bottom_width() const {
  return bottom_mlp.empty() ? dense_features : bottom_mlp.back();
}

int64_t ModelConfig::projected_width() const {
  return dense_features > 0 ? bottom_width() : embedding_dim;
}

std::vector<FeatureVectors> ModelConfig::projected_features() const {
  const auto needs_equal = [](const auto& i) { return i.kNeedsEqualWidths; };
  const int64_t width = dense_features > 0 ? bottom_width() : tables.front().dim;
  const bool equal = std::ranges::all_of(
      tables, [&](const TableConfig& table) { return table.dim == width || table.is_linear; });
  std::vector<FeatureVectors> features;
  if (equal || !std::visit(needs_equal, interaction)) return features;
  for (const TableConfig& table : tables) {
    if (table.is_linear) continue;
    for (const FeatureConfig& feature : table.features)
      features.push_back({feature.name, table.dim});
  }
  return features;
}

InteractionInputs ModelConfig::interaction_inputs() const {
  const int64_t weights = linear_features(), features = num_features() - weights;
  const bool projected = !projected_features().empty();
  return {bottom_width(), projected ? features * projected_width() : embedding_width() - weights,
          features};
}

int64_t ModelConfig::interaction_width() const {
  return std::visit([&](const auto& i) { return i.width(interaction_inputs()); }, interaction);
}

InteractionCost ModelConfig::interaction_cost() const {
  const InteractionInputs inputs = interaction_inputs();
  InteractionCost cost = std::visit([&](const auto& i) { return i.cost(inputs); }, interaction);
  const int64_t to = projected_width();
  const std::vector<FeatureVectors> features = projected_features();
  for (const auto& [name, width] : features) {
    if (width != to) cost.products.push_back({width, to});
  }
  if (!features.empty()) cost.kept += inputs.embeddings;  // the projected vectors
  return cost;
}

int64_t ModelConfig::dense_parameters() const {
  int64_t total =
      mlp_parameters(dense_features, bottom_mlp, layer_norm.bottom) + (linear ? dense_features : 0);
  for (const InteractionProduct& product : interaction_cost().products) {
    total += product.parameters();
  }
  for (const Tower& tower : towers()) {
    total += mlp_parameters(tower_inputs(), tower.layers, layer_norm.top);
  }
  const int64_t expert = mlp_parameters(interaction_width(), experts.layers, layer_norm.top);
  return total + experts.count * (expert + num_labels() * interaction_width());
}

int64_t ModelConfig::tower_inputs() const {
  return experts.count > 0 ? experts.layers.back() : interaction_width();
}

std::vector<Tower> ModelConfig::towers() const {
  if (tasks.empty()) return {{"/mlp/top", top_mlp, 1}};
  std::vector<Tower> towers;
  for (const TaskConfig& task : tasks) {
    towers.push_back({"/tasks/" + task.name, task.tower, task.weight});
  }
  return towers;
}

int64_t ModelConfig::num_labels() const {
  return tasks.empty() ? 1 : static_cast<int64_t>(tasks.size());
}

std::vector<std::string> ModelConfig::task_names() const {
  std::vector<std::string> names;
  for (const TaskConfig& task : tasks) names.push_back(task.name);
  return names;
}

double ModelConfig::lookups_per_sample() const {
  double total = 0;
  for (const TableConfig& table : tables) {
    for (const FeatureConfig& feature : table.features) {
      total += static_cast<double>(feature.hotness);
    }
  }
  return total;
}

double ScheduleConfig::factor(int64_t t) const {
  if (t < warmup_steps) return static_cast<double>(t + 1) / static_cast<double>(warmup_steps);
  if (t < decay_start) return 1;
  if (type == ScheduleType::kStep) {
    return std::pow(step_factor, static_cast<double>((t - decay_start) / every));
  }
  if (decay_steps == 0) return 1;
  const double done = static_cast<double>(t - decay_start) / static_cast<double>(decay_steps);
  const double left = std::max(0.0, 1 - done);
  if (type == ScheduleType::kPolynomial) return std::pow(left, power);
  return floor + (1 - floor) * (1 - std::cos(std::numbers::pi * left)) / 2;
}

double TrainConfig::batch_factor() const {
  const double ratio =
      static_cast<double>(global_batch_size) / static_cast<double>(base_batch_size);
  switch (lr_scaling) {
    case LrScaling::kNone:
      return 1;
    case LrScaling::kLinear:
      return ratio;
    case LrScaling::kSqrt:
      return std::sqrt(ratio);
  }
  return 1;
}

}  // namespace dlrm
