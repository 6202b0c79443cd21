#pragma once
#include <cstddef>
#include <utility>
#include <vector>

#include "dlrm/plan/plan.h"

/// Cutting tables and placing the parts.
namespace dlrm {

/// Parts of a table along its rows and its columns.
struct Cut {
  int rows = 1;
  int columns = 1;
  int parts() const { return rows * columns; }
  bool operator==(const Cut&) const = default;
};

/// Sorts shards and data-parallel tables in the order that Plan describes. Shards of the same rows
/// are neighbours, because they share their ids.
void sort_plan(Plan& plan);

/// The first of a rank's shards in a sorted plan, and the one after its last.
std::pair<size_t, size_t> shards_of_rank(const Plan& plan, int rank);

/// The parts of a shard, rows first, then columns, all on its rank. None is empty, because a cut is
/// bounded by the shard's rows and columns.
std::vector<Shard> cut_shard(const Shard& shard, Cut cut);
/// The same of table `t`, on rank 0.
std::vector<Shard> cut_table(const TableConfig& table, int t, Cut cut);

/// The cut for `world` ranks under a strategy other than auto and data_parallel. A grid is the
/// factorisation of `world` nearest to a square. If two are equally near, it has more columns than
/// rows. It never has more columns than the table.
Cut cut_of(Strategy strategy, const TableConfig& table, int world);

}  // namespace dlrm
