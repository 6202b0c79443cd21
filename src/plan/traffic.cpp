#include "dlrm/plan/traffic.h"

#include <algorithm>
#include <cmath>

#include "dlrm/wire/message_bytes.h"
#include "dlrm/wire/sample_code.h"

namespace dlrm {
namespace {

/// If more bags than this share have an id in a shard, all of them are returned: one matrix is
/// simpler to copy than listed rows.
constexpr double kMostOfTheBags = 0.875;

/// Codes are computed for this many samples if their number is not known.
constexpr int64_t kManySamples = int64_t{1} << 20;

double share_of(Range rows, int64_t table_rows) {
  return static_cast<double>(rows.size()) / static_cast<double>(table_rows);
}

/// The expected share of bags of `ids` ids that have one in this share of the rows.
double share_of_bags(double ids, double share) {
  if (ids == 1) return share;
  return share < 1 ? -std::expm1(ids * std::log1p(-share)) : 1.0;
}

}  // namespace

double hotness_of(const TableConfig& table) {
  double sum = 0;
  for (const FeatureConfig& feature : table.features) sum += static_cast<double>(feature.hotness);
  return sum;
}

double expected_unique_rows(double rows, double lookups) {
  if (rows <= 0 || lookups <= 0) return 0;
  // expm1 and log1p keep the digits that 1 - (1 - 1/rows)^lookups loses for large tables.
  return -rows * std::expm1(lookups * std::log1p(-1.0 / rows));
}

double expected_unique_rows(int64_t rows, double lookups, double alpha) {
  if (alpha == 0) return expected_unique_rows(static_cast<double>(rows), lookups);
  // The share of ids below a row: ((row + 1)^g − 1) / ((rows + 1)^g − 1), g = 1 − alpha.
  const double g = 1 - alpha;
  const auto area = [&](int64_t row) {
    const double log = std::log1p(static_cast<double>(row));
    return g == 0 ? log : std::expm1(g * log) / g;
  };
  const double all = area(rows);
  double unique = 0, before = area(0);
  // Rows that are near to each other are about equally hot.
  for (int64_t begin = 0; begin < rows;) {
    const int64_t end = std::min(rows, begin + 1 + begin / 8);
    const auto count = static_cast<double>(end - begin);
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

double expected_head_bytes(const FeatureConfig& feature, Range rows, int64_t table_rows,
                           int64_t samples) {
  if (samples == 0) return 0;
  if (rows.size() == table_rows) return static_cast<double>(group_header_bytes(feature.hotness));
  const double ids = static_cast<double>(samples) * static_cast<double>(feature.hotness);
  const double share = share_of(rows, table_rows);
  const double any = share_of_bags(ids, share);
  // A group without ids has no code. The others have this many ids on average.
  const int64_t some = std::max<int64_t>(std::llround(ids * share / any), 1);
  const int64_t bytes = group_header_bytes(some) + SampleCode(samples, some).bytes();
  return (1 - any) * static_cast<double>(group_header_bytes(0)) + any * static_cast<double>(bytes);
}

double id_bytes_per_sample(const TableConfig& table, Range rows) {
  const double share = share_of(rows, table.rows);
  double bytes = static_cast<double>(wire_id_bytes(table.rows)) * hotness_of(table) * share;
  if (rows.size() == table.rows) return bytes;
  for (const FeatureConfig& feature : table.features) {
    const SampleCode code(kManySamples, std::llround(static_cast<double>(kManySamples) *
                                                     static_cast<double>(feature.hotness) * share));
    bytes += static_cast<double>(code.bytes()) / static_cast<double>(kManySamples);
  }
  return bytes;
}

double returned_share(RoutingMode mode, int64_t hotness, Range rows, int64_t table_rows) {
  if (mode == RoutingMode::kFixed || rows.size() == table_rows) return 1;
  const double share = share_of_bags(static_cast<double>(hotness), share_of(rows, table_rows));
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

double replicated_pair_bytes(const TableConfig& table, double local_batch, int world) {
  const double unique =
      expected_unique_rows(static_cast<double>(table.rows), local_batch * hotness_of(table));
  return (world - 1) * unique * (8.0 + 4.0 * static_cast<double>(table.dim));
}

double replicated_allreduce_bytes(const TableConfig& table, int world) {
  const double bytes = static_cast<double>(table.rows) * static_cast<double>(table.dim + 1) * 4.0;
  return 2.0 * (world - 1) / world * bytes;
}

bool replicates_by_pairs(const TableConfig& table, int64_t global_batch, int world) {
  const double local = std::ceil(static_cast<double>(global_batch) / world);
  return replicated_pair_bytes(table, local, world) < replicated_allreduce_bytes(table, world);
}

}  // namespace dlrm
