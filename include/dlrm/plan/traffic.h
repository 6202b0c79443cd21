#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/core/partition.h"
#include "dlrm/plan/plan.h"

/// The expected traffic of the embedding exchange in a step, and the choices that depend on it. Ids
/// are taken as uniform over their table's rows unless a function has alpha, and every bag has its
/// config's hotness.
namespace dlrm {

/// Ids that one sample looks up in a table: the sum of its features' hotness.
double hotness_of(const TableConfig& table);
/// The same of the features whose ids have weights.
double weighted_hotness_of(const TableConfig& table);
/// The same of the features with max pooling.
double max_hotness_of(const TableConfig& table);

/// Distinct rows among `lookups` ids: of uniform ones rows·(1 − (1 − 1/rows)^lookups). Those that
/// `alpha` skews, as data.synthetic.alpha does, within 1 %. Needs time log(rows).
double expected_unique_rows(int64_t rows, double lookups, double alpha = 0);

/// `data.synthetic.alpha`, or 0 if the data is not synthetic.
double skew_of_ids(const RunConfig& config);

// ---- Ids

/// By table: 1 if it has shards.
std::vector<char> sharded_tables(const std::vector<TableConfig>& tables, const Plan& plan);

/// Bytes of an id in messages: 4 if all sharded tables have at most 2^31 rows, otherwise 8.
int64_t id_bytes_of(const std::vector<TableConfig>& tables, const Plan& plan);

/// Expected bytes of ids that a sample sends to the owner of these rows, and if they are cut, of
/// the code that says which bags have them. Headers and padding of messages are left out.
double id_bytes_per_sample(const TableConfig& table, Range rows);

// ---- Pooled vectors and their gradients

/// True if shard `i` has the same rows as the preceding shard, and so receives the same ids.
bool shares_ids(const Plan& plan, size_t i);

/// The type in which pooled vectors of a shard are sent: that of train.wire. If this is fp32 and E
/// is bf16, owners round vectors that are no sums of several ranks and are not divided.
DType vector_type(const RunConfig& config, const TableConfig& table, int64_t rows, int64_t width);

/// True if bags are pooled in E, so that no vectors are sent: on one rank, if no rows are cut.
bool pools_locally(const std::vector<TableConfig>& tables, const Plan& plan);

/// True if the owner of these rows returns only the bags that have an id there: if less than 7/8 of
/// all bags are expected to have one. With *fixed* routing every bag is returned, so that shapes
/// are constant.
bool returns_only_non_empty_bags(RoutingMode mode, int64_t hotness, Range rows, int64_t table_rows);

/// The expected share of bags that the owner of these rows returns: 1, or if it returns only those
/// that have an id there, 1 − (1 − share of rows)^hotness.
double returned_share(RoutingMode mode, int64_t hotness, Range rows, int64_t table_rows);

/// Vectors that a shard returns per sample, over the table's features.
double expected_vectors(RoutingMode mode, const TableConfig& table, Range rows);

/// The type in which an owner keeps vectors that are sent as `wire`. Operations know fp32 and bf16.
constexpr DType pooled_as(DType wire) { return wire == DType::kFloat16 ? DType::kFloat32 : wire; }

// ---- Data-parallel tables

/// Bytes of a row's number and its gradient.
double pair_bytes(const TableConfig& table);

/// One table's share of a large allreduce of [rows, dim + 1] floats, of which the last is the mask
/// of rows that have a gradient: 2·(N−1)/N of it.
double replicated_allreduce_bytes(const TableConfig& table, int world);

/// True if pairs are smaller than an allreduce, at the batch ⌈B/N⌉ of the largest rank. The answer
/// is the same on every rank.
bool replicates_by_pairs(const TableConfig& table, int64_t global_batch, int world);

}  // namespace dlrm
