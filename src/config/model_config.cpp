#include <algorithm>
#include <cmath>

#include "dlrm/config/run_config.h"

namespace dlrm {
namespace {

int64_t mlp_parameters(int64_t input, const std::vector<int64_t>& widths) {
  int64_t total = 0;
  for (const int64_t width : widths) {
    total += (input + 1) * width;
    input = width;
  }
  return total;
}

int64_t concat_width(int64_t dense, int64_t embeddings, int64_t average_pool) {
  const int64_t window = std::max<int64_t>(average_pool, 1);
  return dense + (embeddings + window - 1) / window;
}

}  // namespace

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

int64_t ModelConfig::interaction_width() const {
  const int64_t dense = bottom_width();
  const int64_t features = num_features();
  switch (interaction.type) {
    case InteractionType::kDot:
      return dense + features * (features + 1) / 2;
    case InteractionType::kConcat:
      return concat_width(dense, embedding_width(), interaction.average_pool);
    case InteractionType::kCross:
      break;
  }
  return dense + embedding_width();
}

double ModelConfig::embedding_parameters() const {
  double total = 0;
  for (const TableConfig& table : tables) {
    total += static_cast<double>(table.rows) * static_cast<double>(table.dim);
  }
  return total;
}

int64_t ModelConfig::dense_parameters() const {
  const int64_t width = interaction_width();
  int64_t total = mlp_parameters(dense_features, bottom_mlp) + mlp_parameters(width, top_mlp);
  if (interaction.type == InteractionType::kCross) {
    total += interaction.layers * (2 * interaction.rank * width + width);
  }
  return total;
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
  if (t < decay_start || decay_steps == 0) return 1;
  const double done = static_cast<double>(t - decay_start) / static_cast<double>(decay_steps);
  return std::pow(std::max(0.0, 1 - done), power);
}

}  // namespace dlrm
