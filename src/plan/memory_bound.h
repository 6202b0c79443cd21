#pragma once
#include "dlrm/config/run_config.h"

#include "cost.h"

namespace dlrm {

/// A lower bound in bytes for the fullest rank of any plan whose heaviest rank, without node sums,
/// costs at most `seconds`. At most `most`. Leaves out caches. `cost` is of ranks. With more than
/// 128 different tables it is the mean of all ranks, whatever they cost.
///
/// Let `s` be the time of a shard, and `f` the share of its table that a part has. A part costs at
/// least s + a f and needs at least b f bytes, where a and b depend on the table, on how narrow the
/// part is, and on k, the parts of its rank, since others leave it less time. So f is at most some
/// u. It is at least some l: a row of a few columns, if the table has few rows, otherwise 0. A copy
/// is a part with f = 1 / ranks. A rank with k parts has at most `seconds` - k s for their a f, and
/// room M for their b f. Ranks with a sample more, in class c, have less room M. Choose any prices
/// x, y, z at least 0 for each k and c, and let v be, for each c, the most of
///
///   x (seconds - k s) + y M + z k
///
/// for all k. Choose any q at least 0 for each table, and let p be the least of
/// (x a f + y b f + z - q) / f for all its parts, where f is l or u, and all k and c. If l is 0, q
/// is at most z. Then p f + q is no more than the price of any part, since that is so for l and for
/// u. So the parts of a rank have a sum of p f + q of at most its v. The parts of a table have a
/// sum of f of 1, and there are at least 1 / u. So there is no such plan if the sum of p + q ceil(1
/// / u) over tables exceeds the sum of v over ranks. A linear program finds the best prices. Above
/// some k ranks have the prices of that one, for which z <= x s then holds, so that more parts do
/// not raise the sum.
///
/// No plan has copies of a table if the parts or copies of all others take more time than these
/// leave. Besides, some rank has a part of each table, with at least a row and a column, or its
/// copy, and some ranks have a sample more.
double least_fullest(const RunConfig& config, const CostModel& cost, double seconds, double most);

}  // namespace dlrm
