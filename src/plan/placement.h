#pragma once
#include <vector>

#include "dlrm/plan/plan.h"

#include "cost.h"
#include "division.h"

namespace dlrm {

/// What a rank has.
struct Load {
  double seconds = 0;
  double bytes = 0;
  bool operator==(const Load&) const = default;
};

/// A table to place, and whether it may be cut.
struct OpenTable {
  int table = 0;  ///< index into ModelConfig::tables
  MayBe may_be = MayBe::kCut;
};

/// Places tables on the ranks of a cost model, or on its nodes (docs/planning.md). `start` has the
/// loads that are placed already, `common` the bytes of every rank besides. `room`: bytes of a rank
/// for shards; 0: unknown.
std::vector<Shard> place(const RunConfig& config, const CostModel& cost,
                         const std::vector<Load>& start, const std::vector<OpenTable>& tables,
                         double common, double room);

}  // namespace dlrm
