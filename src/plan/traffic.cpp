#include "dlrm/plan/traffic.h"

#include <cmath>

namespace dlrm {
namespace {

int64_t padded(int64_t bytes) { return (bytes + 7) / 8 * 8; }

double share_of(Range rows, int64_t table_rows) {
  return static_cast<double>(rows.size()) / static_cast<double>(table_rows);
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

int64_t wire_id_bytes(int64_t largest_rows) { return largest_rows > int64_t{1} << 31 ? 8 : 4; }

bool lengths_travel(const TableConfig& table, Range rows) { return rows.size() < table.rows; }

int64_t id_message_bytes(int64_t groups, int64_t length_lists, int64_t samples, int64_t ids,
                         int64_t id_bytes) {
  if (samples == 0) return 0;
  return 8 * groups + padded(4 * length_lists * samples) + padded(id_bytes * ids);
}

double id_bytes_per_sample(const TableConfig& table, Range rows) {
  const double lengths =
      lengths_travel(table, rows) ? 4.0 * static_cast<double>(table.features.size()) : 0.0;
  return static_cast<double>(wire_id_bytes(table.rows)) * hotness_of(table) *
             share_of(rows, table.rows) +
         lengths;
}

bool returns_only_non_empty_bags(RoutingMode mode, int64_t hotness, Range rows,
                                 int64_t table_rows) {
  return mode == RoutingMode::kExact && hotness * rows.size() < table_rows;
}

double expected_vectors(RoutingMode mode, const TableConfig& table, Range rows) {
  double vectors = 0;
  for (const FeatureConfig& feature : table.features) {
    const bool all = !returns_only_non_empty_bags(mode, feature.hotness, rows, table.rows);
    const double empty =
        std::pow(1.0 - share_of(rows, table.rows), static_cast<double>(feature.hotness));
    vectors += all ? 1.0 : 1.0 - empty;
  }
  return vectors;
}

int64_t pairs_message_bytes(int64_t tables, int64_t rows, int64_t floats) {
  return 8 * tables + padded(8 * rows + 4 * floats);
}

int64_t allreduce_sent_bytes(int64_t floats, int rank, int world) {
  constexpr int64_t kOneExchangeBytes = 16384;
  const int64_t to_all = 4 * floats * (world - 1);
  if (to_all <= kOneExchangeBytes) return to_all;
  const int64_t own = part_of(floats, rank, world).size();
  return 4 * (floats - own) + 4 * own * (world - 1);
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
