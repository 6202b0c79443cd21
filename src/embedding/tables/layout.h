#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/device/device.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// A feature and its columns of E.
struct FeaturePlace {
  std::string name;
  int table = 0;
  int64_t rows = 0;
  int64_t width = 0;
  int64_t column = 0;  ///< first of its columns in E
  int64_t hotness = 1;
  bool mean = false;
  bool max = false;
  bool replicated = false;  ///< its table is data-parallel
  bool weighted = false;    ///< its ids have weights
};

/// Rows of a table on one owner. Ids are routed to slices. Column shards of the same rows share a
/// slice, so that ids are sent and sorted once.
struct Slice {
  int table = 0;
  Range rows;
  bool all_rows = true;           ///< all rows of the table
  std::vector<Range> columns;     ///< of its shards, ascending
  std::vector<MemoryKind> kinds;  ///< of its shards
  int cache = -1;                 ///< number among the owner's cached slices; -1: resident
  /// Borders of the table's other slices within its rows, counted from its first row, ascending.
  std::vector<int64_t> cuts;
  /// The host lists the order of each batch's rows for a device.
  bool ordered = false;
  int first_group = 0;  ///< the groups of its features are consecutive
  int first_block = 0;  ///< its blocks are consecutive: shard-major, then feature
};

/// The ids of one feature that fall into one slice.
struct RoutedGroup {
  int slice = 0;
  int feature = 0;
  bool skips_empty_bags = false;  ///< only non-empty bags are pooled and returned
};

/// The pooled vectors of one feature from one shard, or from the shards of a node sum.
struct PooledBlock {
  int group = 0;
  int feature = 0;
  int shard = 0;  ///< of the owner, counted over its slices
  int64_t first_row = 0;
  int64_t width = 0;
  bool skips_empty_bags = false;  ///< of its group
  int64_t e_column = 0;           ///< in E
  /// Of a shard: number in OwnerLayout::sums if other ranks of the node have the other shards of a
  /// sum, otherwise -1.
  int sum = -1;
  int returned = -1;  ///< of a shard without a sum: number in OwnerLayout::returned
};

/// One feature of a node sum, on one of its ranks. Each rank adds the vectors of a part of the
/// columns.
struct SummedBlock {
  int64_t width = 0;         ///< of the shards
  int64_t column = 0;        ///< in the rank's matrix of partial vectors
  int64_t first_row = 0;     ///< of all shards
  std::vector<int> ranks;    ///< of the shards, by first row
  std::vector<Range> parts;  ///< the columns that each of them adds, counted from the shards' first
  size_t place = 0;          ///< of this rank among them
  int returned = -1;         ///< number in OwnerLayout::returned; -1 if its part is empty
};

/// The slices of one rank.
struct OwnerLayout {
  std::vector<Slice> slices;  ///< by table, then first row
  std::vector<RoutedGroup> groups;
  std::vector<PooledBlock> blocks;    ///< of its shards
  std::vector<PooledBlock> returned;  ///< what it sends to the ranks of samples
  std::vector<SummedBlock> sums;      ///< in an order that all ranks share
  int64_t partial_width = 0;          ///< columns of its matrix of partial vectors
  int first_group = 0;                ///< number of its first group, counted over all owners
  bool by_source =
      false;  ///< true if a group is skips_empty_bags: each source rank has its own pieces
  int shards = 0;
  int caches = 0;  ///< slices in a cached tier
};

/// The owner of every row, and the columns of every feature's vectors. The same on every rank.
struct EmbeddingLayout {
  /// With *fixed* routing every bag is returned, so that shapes are constant. `lists_orders`: a
  /// device exchanges sums of squares of cut columns. The hosts then list the orders of rows where
  /// those that several owners have are not at the same places.
  EmbeddingLayout(const std::vector<TableConfig>& tables, const Plan& plan, RoutingMode mode,
                  bool lists_orders = false);

  std::vector<std::string> table_names;
  std::vector<FeaturePlace> features;
  std::vector<int> first_feature;  ///< [tables + 1]
  std::vector<OwnerLayout> owners;
  std::vector<int> replicated;            ///< tables, ascending
  std::vector<MemoryKind> replica_kinds;  ///< of the replicated tables
  int64_t width = 0;                      ///< W
  int groups = 0;                         ///< of all owners
  int64_t id_bytes = 8;                   ///< of an id in messages
  bool local = false;                     ///< one rank has all rows uncut, and nothing is sent

  int features_of(int table) const {
    return first_feature[static_cast<size_t>(table) + 1] -
           first_feature[static_cast<size_t>(table)];
  }
  /// True if ids of a feature of the table have weights.
  bool weighted(int table) const;
  const OwnerLayout& owner(int rank) const { return owners[static_cast<size_t>(rank)]; }
  /// True if a rank has rows in a cached tier.
  bool caches_rows() const;
  /// True if a rank has an ordered slice.
  bool orders_rows() const;
  /// True if a node adds partial vectors.
  bool sums_in_nodes() const;
};

}  // namespace dlrm
