#include "gpu_memory.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dlrm/core/partition.h"
#include "dlrm/plan/traffic.h"
#include "dlrm/wire/message_bytes.h"

#include "numbers.h"

namespace dlrm {
namespace {

constexpr double kPadding = 16;        // elements
constexpr double kIdsALongRun = 64;    // at least
constexpr double kBytesALongRun = 64;  // the run and its list entries

/// Room for ids and for bags.
struct ListRoom {
  double ids = 0, bags = 0;
};
ListRoom room_of(const RunConfig& config, const TableConfig& table, int64_t rows, int64_t samples,
                 int sources) {
  ListRoom room;
  const double lists = real(std::clamp<int64_t>(samples, 1, sources)),
               local = real(samples) / lists;
  for (const FeatureConfig& feature : table.features) {
    double ids = local * real(feature.hotness);
    if (rows != table.rows) {
      ids = gpu_list_room(ids * real(rows) / real(table.rows));
    }
    const bool lists_bags =
        returns_only_non_empty_bags(config.routing.mode, feature.hotness, {0, rows}, table.rows);
    room.ids += lists * ids;
    room.bags += lists * (lists_bags ? std::min(ids, local) : local);
  }
  return room;
}

double in_flight(const RunConfig& config) { return config.batches_ahead() + 1; }

}  // namespace

double gpu_key_bytes(const ModelConfig& model) {
  double rows = 0;
  for (const TableConfig& table : model.tables) {
    rows += real(table.rows);
    if (rows > real(std::numeric_limits<uint32_t>::max())) return 8;
  }
  return 4;
}

double gpu_weight_padding(const RunConfig& config, double bytes_a_parameter) {
  const ModelConfig& model = config.model;
  const InteractionCost interaction = model.interaction_cost();
  const double rows =
      sum_of(model.bottom_mlp) + real(interaction.parameter_rows) + sum_of(model.top_mlp);
  const size_t norms = (model.layer_norm.bottom ? model.bottom_mlp.size() : 0) +
                       (model.layer_norm.top ? model.top_mlp.size() : 0);
  const double tensors =
      2.0 * static_cast<double>(model.bottom_mlp.size() + model.top_mlp.size() + norms) +
      real(interaction.tensors) + 1;
  return kPadding * (rows + tensors) * bytes_a_parameter;
}

double gpu_activation_extra(const RunConfig& config, int64_t local_batch) {
  const ModelConfig& model = config.model;
  const double element = config.train.precision == Precision::kBf16 ? 2 : 4;
  const auto hidden = [](bool extra, const std::vector<int64_t>& sizes) {
    return extra ? static_cast<double>(sizes.size()) : 0.0;
  };
  const double more = hidden(model.dropout.bottom > 0, model.bottom_mlp) +
                      hidden(model.dropout.top > 0, model.top_mlp) +
                      hidden(model.layer_norm.bottom, model.bottom_mlp) +
                      hidden(model.layer_norm.top, model.top_mlp);
  const double buffers = 2.0 * static_cast<double>(model.bottom_mlp.size() + model.top_mlp.size()) +
                         more + real(model.interaction_cost().tensors) + 8;
  const double masks = (sum_of(model.bottom_mlp) + sum_of(model.top_mlp)) / 8 +
                       16.0 * static_cast<double>(model.bottom_mlp.size() + model.top_mlp.size());
  return real(local_batch) * (kPadding * buffers * element + masks);
}

double gpu_routed_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                        int64_t samples, int sources, double key_bytes) {
  const auto [ids, bags] = room_of(config, table, rows, samples, sources);
  const double offsets = bags + static_cast<double>(table.features.size());
  const double runs = 24, sorting = 3 * (key_bytes + 4);
  const double long_run = 4.0 * real(table.dim) + 12.0 * std::ceil(real(table.dim) / 32);
  return in_flight(config) * (12 * ids + 16 * offsets) + ids * (runs + sorting) +
         ids / kIdsALongRun * 1.1 * (long_run + kBytesALongRun);
}

double gpu_list_room(double count) { return 1.25 * (count + 4 + 7 * std::sqrt(count)); }

double gpu_message_bytes(const RunConfig& config, const TableConfig& table) {
  const double batch = real(config.train.global_batch_size);
  return in_flight(config) * batch *
         (static_cast<double>(wire_id_bytes(table.rows)) * hotness_of(table) +
          4.0 * static_cast<double>(table.features.size()));
}

double gpu_replicated_bytes(const TableConfig& table, int world) {
  if (world == 1) return 0;
  return real(table.rows) * 4.0 * real(table.dim + 1);
}

double gpu_square_sum_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                            int64_t width, int world, bool ordered) {
  if (!traits_of(config.train.sparse_optimizer.type).rowwise()) return 0;
  if (width == table.dim) return 0;
  const double orders = ordered ? 4 + 8 * in_flight(config) : 0;
  return room_of(config, table, rows, config.train.global_batch_size, world).ids *
         (4.0 * real(width) + 24 + orders);
}

double gpu_input_bytes(const RunConfig& config, int64_t local_batch) {
  return (in_flight(config) + 1) * real(local_batch) * 4.0 * real(config.model.dense_features + 2);
}

}  // namespace dlrm
