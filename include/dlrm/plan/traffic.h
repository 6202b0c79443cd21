#pragma once
#include <cstdint>

#include "dlrm/config/run_config.h"
#include "dlrm/core/partition.h"

/// The bytes that the embedding exchange is expected to move in a step, one formula a function.
/// Expectations take ids as uniform over their table's rows and every bag at its config's hotness.
namespace dlrm {

/// Ids that one sample looks up in a table: the sum of its features' hotness.
double hotness_of(const TableConfig& table);

/// Distinct rows among `lookups` uniform ids: rows·(1 − (1 − 1/rows)^lookups).
double expected_unique_rows(double rows, double lookups);

/// Whether the lengths of bags travel with the ids of a shard: only where its rows are cut, for
/// only then do the counts depend on the data.
bool lengths_travel(const TableConfig& table, Range rows);

/// Look-up ids of one sample for the owner of rows [begin, end) of a table: 8 bytes an id,
/// hotness·(share of the rows) ids, and 4 bytes a feature where lengths travel. An owner of several
/// column shards of the same rows receives them once.
double id_bytes_per_sample(const TableConfig& table, Range rows);

/// Pooled vectors of one sample from a shard of `width` columns, a vector a feature, as `wire`.
double pooled_bytes_per_sample(const TableConfig& table, int64_t width, DType wire);

/// A data-parallel table's gradients sent by a rank of `local_batch` samples as pairs: its unique
/// rows, an int64 and `dim` floats each, to each other rank.
double replicated_pair_bytes(const TableConfig& table, double local_batch, int world);

/// The same by an allreduce of [rows, dim + 1] floats (the last is the touched mask) as
/// reduce-scatter and allgather: 2·(N−1)/N of it.
double replicated_allreduce_bytes(const TableConfig& table, int world);

/// Whether pairs are the smaller of the two, at the batch ⌈B/N⌉ of the fullest rank: the same
/// answer on every rank.
bool replicates_by_pairs(const TableConfig& table, int64_t global_batch, int world);

}  // namespace dlrm
