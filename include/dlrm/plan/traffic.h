#pragma once
#include <cstdint>

#include "dlrm/config/run_config.h"
#include "dlrm/core/partition.h"

/// The bytes that the embedding exchange moves in a step, one formula a function: what travels,
/// with counts that the exchange knows and plans expect. Expectations take ids as uniform over
/// their table's rows and every bag at its config's hotness.
namespace dlrm {

/// Ids that one sample looks up in a table: the sum of its features' hotness.
double hotness_of(const TableConfig& table);

/// Distinct rows among `lookups` uniform ids: rows·(1 − (1 − 1/rows)^lookups).
double expected_unique_rows(double rows, double lookups);

// ---- Ids

/// A number of bytes goes ahead to each other rank.
inline constexpr int64_t kSizeBytes = 8;

/// Bytes of an id where the largest sharded table has so many rows: 4 up to 2^31, then 8.
int64_t wire_id_bytes(int64_t largest_rows);

/// Whether the lengths of bags travel with the ids of a shard: where its rows are cut, for then the
/// counts depend on the data (and where bags differ in length).
bool lengths_travel(const TableConfig& table, Range rows);

/// A rank's message to an owner: 8 bytes a group (a feature on some rows; column shards of the same
/// rows share one), 4 a sample for each group whose lengths travel, and the ids; lengths and ids
/// padded to 8 each. Nothing where the rank has no samples. With *fixed* routing one message of all
/// sharded features, without cut rows, goes to every rank.
int64_t id_message_bytes(int64_t groups, int64_t length_lists, int64_t samples, int64_t ids,
                         int64_t id_bytes);

/// A shard's part of these a sample, without headers and padding.
double id_bytes_per_sample(const TableConfig& table, Range rows);

// ---- Pooled vectors and their gradients

/// Whether the owner of these rows returns only the bags that have an id there: where less than one
/// id a bag is expected, as hotness < shards says of equal shards. With *fixed* routing every bag
/// is returned, so that shapes are constant.
bool returns_only_non_empty_bags(RoutingMode mode, int64_t hotness, Range rows, int64_t table_rows);

/// Vectors that go to a rank for each of its samples from a shard, over the table's features: 1
/// each, or the share of bags that are not empty there, 1 − (1 − share of rows)^hotness.
double expected_vectors(RoutingMode mode, const TableConfig& table, Range rows);

// ---- Data-parallel tables

/// What a rank sends to each other one as pairs: 8 bytes for each table's count, then 8 a unique
/// row and 4 a float of their gradients, padded to 8.
int64_t pairs_message_bytes(int64_t tables, int64_t rows, int64_t floats);

/// What rank `rank` sends in an allreduce of `floats` floats: its whole vector to each other rank
/// where that is at most 16 KiB in all; else the others' parts of it and, summed, its own to each.
int64_t allreduce_sent_bytes(int64_t floats, int rank, int world);

/// One table's share of what a rank of `local_batch` samples sends as pairs.
double replicated_pair_bytes(const TableConfig& table, double local_batch, int world);

/// One table's share of a large allreduce, of [rows, dim + 1] floats (the last is the touched
/// mask): 2·(N−1)/N of it.
double replicated_allreduce_bytes(const TableConfig& table, int world);

/// Whether pairs are the smaller of the two, at the batch ⌈B/N⌉ of the fullest rank: the same
/// answer on every rank.
bool replicates_by_pairs(const TableConfig& table, int64_t global_batch, int world);

}  // namespace dlrm
