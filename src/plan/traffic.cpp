#include "dlrm/plan/traffic.h"

#include <algorithm>
#include <cmath>

#include "dlrm/wire/message_bytes.h"
#include "dlrm/wire/returned_parts.h"
#include "dlrm/wire/sample_code.h"

#include "numbers.h"

namespace dlrm {
namespace {

/// If more bags than this share have an id in a shard, all of them are returned: one matrix is
/// simpler to copy than listed rows.
constexpr double kMostOfTheBags = 0.875;

/// Codes are computed for this many samples if their number is not known.
constexpr int64_t kManySamples = int64_t{1} << 20;

double share_of(Range rows, int64_t table_rows) { return real(rows.size()) / real(table_rows); }

/// The expected share of bags of `ids` ids that have one in this share of the rows.
double share_of_bags(double ids, double share) {
  if (ids == 1) return share;
  return share < 1 ? -std::expm1(ids * std::log1p(-share)) : 1.0;
}

}  // namespace

double hotness_of(const TableConfig& table) {
  double sum = 0;
  for (const FeatureConfig& feature : table.features) sum += real(feature.hotness);
  return sum;
}

double weighted_hotness_of(const TableConfig& table) {
  double sum = 0;
  for (const FeatureConfig& feature : table.features) {
    if (feature.weights) sum += real(feature.hotness);
  }
  return sum;
}

double max_hotness_of(const TableConfig& table) {
  double sum = 0;
  for (const FeatureConfig& feature : table.features) {
    if (feature.pooling == Pooling::kMax) sum += real(feature.hotness);
  }
  return sum;
}

double expected_unique_rows(int64_t rows, double lookups, double alpha) {
  if (rows <= 0 || lookups <= 0) return 0;
  // expm1 and log1p keep the digits that 1 - (1 - 1/rows)^lookups loses for large tables.
  if (alpha == 0) return -real(rows) * std::expm1(lookups * std::log1p(-1.0 / real(rows)));
  // The share of ids below a row: ((row + 1)^g − 1) / ((rows + 1)^g − 1), g = 1 − alpha.
  const double g = 1 - alpha;
  const auto area = [&](int64_t row) {
    const double log = std::log1p(real(row));
    return g == 0 ? log : std::expm1(g * log) / g;
  };
  const double all = area(rows);
  double unique = 0, before = area(0);
  // Rows that are near to each other are about equally hot.
  for (int64_t begin = 0; begin < rows;) {
    const int64_t end = std::min(rows, begin + 1 + begin / 8);
    const auto count = real(end - begin);
    const double until = area(end);
    const double share = (until - before) / all / count;
    unique -= count * (share < 1 ? std::expm1(lookups * std::log1p(-share)) : -1.0);
    begin = end;
    before = until;
  }
  return unique;
}

double skew_of_ids(const RunConfig& config) {
  return config.data.source == DataKind::kSynthetic ? config.data.synthetic.alpha : 0;
}

std::vector<char> sharded_tables(const std::vector<TableConfig>& tables, const Plan& plan) {
  std::vector<char> sharded(tables.size(), 0);
  for (const Shard& shard : plan.shards) sharded[static_cast<size_t>(shard.table)] = 1;
  return sharded;
}

int64_t id_bytes_of(const std::vector<TableConfig>& tables, const Plan& plan) {
  int64_t largest = 0;
  for (const Shard& shard : plan.shards) {
    largest = std::max(largest, tables[static_cast<size_t>(shard.table)].rows);
  }
  return wire_id_bytes(largest);
}

double id_bytes_per_sample(const TableConfig& table, Range rows) {
  const double share = share_of(rows, table.rows);
  double bytes = (real(wire_id_bytes(table.rows)) * hotness_of(table) +
                  real(sizeof(float)) * weighted_hotness_of(table)) *
                 share;
  if (rows.size() == table.rows) return bytes;
  for (const FeatureConfig& feature : table.features) {
    const SampleCode code(kManySamples,
                          std::llround(real(kManySamples) * real(feature.hotness) * share));
    bytes += real(code.bytes()) / real(kManySamples);
  }
  return bytes;
}

DType vector_type(const RunConfig& config, const TableConfig& table, int64_t rows, int64_t width) {
  const DType wire = config.train.wire.forward;
  if (wire != DType::kFloat32 || config.compute_type() != DType::kBFloat16) return wire;
  const bool divided =
      std::any_of(table.features.begin(), table.features.end(),
                  [](const FeatureConfig& feature) { return feature.pooling == Pooling::kMean; });
  return owner_rounds(rows == table.rows, divided, width) ? DType::kBFloat16 : wire;
}

bool pools_locally(const std::vector<TableConfig>& tables, const Plan& plan) {
  return plan.world == 1 && std::ranges::all_of(plan.shards, [&](const Shard& shard) {
           return shard.rows.size() == tables[static_cast<size_t>(shard.table)].rows;
         });
}

bool shares_ids(const Plan& plan, size_t i) {
  if (i == 0) return false;
  const Shard& a = plan.shards[i - 1];
  const Shard& b = plan.shards[i];
  return a.rank == b.rank && a.table == b.table && a.rows == b.rows;
}

double returned_share(RoutingMode mode, int64_t hotness, Range rows, int64_t table_rows) {
  if (mode == RoutingMode::kFixed || rows.size() == table_rows) return 1;
  const double share = share_of_bags(real(hotness), share_of(rows, table_rows));
  return share < kMostOfTheBags ? share : 1;
}

bool returns_only_non_empty_bags(RoutingMode mode, int64_t hotness, Range rows,
                                 int64_t table_rows) {
  return returned_share(mode, hotness, rows, table_rows) < 1;
}

double expected_vectors(RoutingMode mode, const TableConfig& table, Range rows) {
  double vectors = 0;
  for (const FeatureConfig& feature : table.features) {
    vectors += returned_share(mode, feature.hotness, rows, table.rows);
  }
  return vectors;
}

double pair_bytes(const TableConfig& table) { return 8.0 + 4.0 * real(table.dim); }

double replicated_allreduce_bytes(const TableConfig& table, int world) {
  const double bytes = real(table.rows) * real(table.dim + 1) * 4.0;
  return 2.0 * (world - 1) / world * bytes;
}

bool replicates_by_pairs(const TableConfig& table, int64_t global_batch, int world) {
  const double local = std::ceil(real(global_batch) / world);
  const double rows = expected_unique_rows(table.rows, local * hotness_of(table));
  return (world - 1) * rows * pair_bytes(table) < replicated_allreduce_bytes(table, world);
}

}  // namespace dlrm
