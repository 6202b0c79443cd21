#pragma once
#include "dlrm/config/run_config.h"

#include "cost.h"

namespace dlrm {

/// A lower bound in bytes for the fullest rank of any plan whose heaviest rank, without node sums,
/// costs at most `seconds`. At most `most`. Leaves out caches. `cost` is of ranks.
///
/// Let `s` be the time of a shard, and `f` the share of its table that a part has. A part costs at
/// least s + a f and needs at least b f bytes, where a and b depend on the table and on how narrow
/// the part is, and f is at most some u. A copy is a part with f = 1 / ranks. A rank with k parts
/// has at most `seconds` - k s for their a f, and room M for their b f. Choose any prices x, y, z
/// at least 0 for each k with
///
///   x (seconds - k s) + y M + z k <= 1,
///
/// and let p be, for each table, the least of x a + y b + z / u for all its parts and all k. The
/// parts of a rank have a sum of p f of at most 1, and those of all ranks have all of each table.
/// So there is no such plan if the sum of p over tables exceeds the number of ranks. A linear
/// program finds the best prices. Above some k ranks have the prices of that one, for which z <= x
/// s then holds, so that more parts do not raise the sum.
double least_fullest(const RunConfig& config, const CostModel& cost, double seconds, double most);

}  // namespace dlrm
