#include "dlrm/embedding/traffic.h"

#include <algorithm>

#include "dlrm/plan/traffic.h"

#include "bag_message.h"
#include "layout.h"
#include "replicated.h"
#include "router.h"

namespace dlrm {
namespace {

/// The message of `samples` samples with these features, each on rows [first, last) of its table.
int64_t exact_message(const EmbeddingLayout& layout, const OwnerLayout& owner, int64_t samples) {
  std::vector<GroupHeader> headers;
  for (const RoutedGroup& group : owner.groups) {
    const FeaturePlace& place = layout.features[static_cast<size_t>(group.feature)];
    const Slice& slice = owner.slices[static_cast<size_t>(group.slice)];
    const double share = static_cast<double>(slice.rows.size()) / static_cast<double>(place.rows);
    const double ids = static_cast<double>(samples * place.hotness) * share;
    headers.push_back(
        {slice.whole ? static_cast<int32_t>(place.hotness) : -1, static_cast<int32_t>(ids + 0.5)});
  }
  return message_bytes(headers, samples, id_bytes_of(layout));
}

int64_t fixed_message(const EmbeddingLayout& layout, int64_t samples) {
  std::vector<GroupHeader> headers;
  for (const FeaturePlace& place : layout.features) {
    if (place.replicated) continue;
    headers.push_back(
        {static_cast<int32_t>(place.hotness), static_cast<int32_t>(samples * place.hotness)});
  }
  return message_bytes(headers, samples, id_bytes_of(layout));
}

int64_t replicated_bytes(const EmbeddingOptions& options, const EmbeddingLayout& layout, int world,
                         int64_t samples) {
  int64_t reduced = 0, rows_gathered = 0, values_gathered = 0, counts = 0;
  for (const int t : layout.replicated) {
    const TableConfig& table = options.tables[static_cast<size_t>(t)];
    if (!replicates_by_pairs(table, options.max_global_batch, world)) {
      reduced += table.rows * (table.dim + 1) * 4;
      continue;
    }
    int64_t unique = 0;
    for (const FeatureConfig& feature : table.features) unique += samples * feature.hotness;
    unique = std::min(unique, table.rows);
    rows_gathered += unique * 8;
    values_gathered += unique * table.dim * 4;
    counts += 8;
  }
  const int64_t message = (rows_gathered + values_gathered + 7) / 8 * 8;
  return allreduce_bytes(reduced, world) + (world - 1) * (counts + message);
}

}  // namespace

ShardedEmbeddings::Traffic predict_traffic(const EmbeddingOptions& options, const Plan& plan,
                                           int rank, int64_t global_batch) {
  ShardedEmbeddings::Traffic sent;
  if (plan.world == 1) return sent;
  const EmbeddingLayout layout(options.tables, plan);
  const int64_t samples = part_of(global_batch, rank, plan.world).size();
  sent.ids = (plan.world - 1) * 8;
  if (options.routing.mode == RoutingMode::kFixed) {
    sent.ids += (plan.world - 1) * fixed_message(layout, samples);
  }
  for (int q = 0; q < plan.world; ++q) {
    if (q == rank) continue;
    const OwnerLayout& owner = layout.owner(q);
    if (options.routing.mode == RoutingMode::kExact) {
      sent.ids += exact_message(layout, owner, samples);
    }
    sent.gradients += samples * owner.width * static_cast<int64_t>(size_of(options.wire.backward));
  }
  sent.pooled = (global_batch - samples) * layout.owner(rank).width *
                static_cast<int64_t>(size_of(options.wire.forward));
  sent.replicated = replicated_bytes(options, layout, plan.world, samples);
  return sent;
}

}  // namespace dlrm
