#include "dlrm/plan/simulate.h"

#include <algorithm>
#include <map>
#include <utility>

#include "predict.h"
#include "step_graph.h"
#include "step_work.h"

namespace dlrm {

namespace {

/// Leaves one of the units of so many ranks that do the same work.
std::vector<EqualRanks> merge_equal(size_t unit, std::vector<RankWork>& ranks) {
  std::map<std::vector<RankWork>, size_t> known;  // the place of the unit's first rank
  std::vector<EqualRanks> merged;
  std::vector<RankWork> left;
  for (size_t begin = 0; begin < ranks.size(); begin += unit) {
    const size_t end = std::min(begin + unit, ranks.size());
    const auto at = [&](size_t r) { return ranks.begin() + static_cast<std::ptrdiff_t>(r); };
    const auto [found, is_new] =
        known.try_emplace(std::vector<RankWork>(at(begin), at(end)), merged.size());
    for (size_t r = begin; r < end; ++r) {
      if (is_new) {
        merged.push_back({static_cast<int>(r), 1});
        left.push_back(ranks[r]);
      } else {
        ++merged[found->second + r - begin].count;
      }
    }
  }
  ranks = std::move(left);
  return merged;
}

}  // namespace

StepPrediction simulate_step(const RunConfig& given, const Plan& plan, const PlanOptions& options) {
  const RunConfig config = with_known_device(given, options);
  const MachineSpeed speed = machine_speed(config);
  StepWork work = step_work(config, plan, options);
  const NodeShare share = node_share(config, plan.world, options, speed);
  const size_t unit = shares_processors(speed) ? static_cast<size_t>(share.ranks) : 1;
  const std::vector<EqualRanks> ranks = merge_equal(unit, work.ranks);
  StepPrediction prediction =
      predict_step(ranks, speed, products_per_second(config, speed), share,
                   [&](RankTasks& tasks) { return std::make_unique<StepGraph>(work, tasks); });
  prediction.local_bytes = work.exchanged().local_bytes;
  prediction.network_bytes = work.exchanged().network_bytes;
  return prediction;
}

}  // namespace dlrm
