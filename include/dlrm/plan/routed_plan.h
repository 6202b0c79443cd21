#pragma once
#include <optional>
#include <string>

#include "dlrm/plan/plan.h"

namespace dlrm {

/// A plan, and how ids travel in a run of it.
struct RoutedPlan {
  Plan plan;
  RoutingMode mode = RoutingMode::kExact;
  std::string said = {};  ///< why `routing.mode: auto` is this mode, a line; empty without a choice
};

/// The plan of a run of `config`, and its mode of routing. The plan is `kept` if there is one,
/// otherwise that of make_plan(). The mode is `config.routing.mode`. If that is auto:
///
/// *fixed* if devices exchange the ids, row shards return at most 1/16 more vectors than with
/// *exact*, and memory suffices, if all ranks are on a node, or the ids that a rank receives are at
/// most as many bytes as the vectors of its samples in fp32. Otherwise *exact*, as always if ids
/// have weights.
///
/// If all ranks are on a node, and are at most 128, another mode is taken if it is better by 1/32,
/// or fits the memory alone. Unless a plan is kept, *fixed* may come with a plan that is made for
/// it. What is better is simulated if the machine file says enough for that, the hosts' routing
/// included. Otherwise a step is as long as the heaviest rank costs or the hosts route, whichever
/// is longer. Deterministic.
RoutedPlan make_routed_plan(const RunConfig& config, int world, const PlanOptions& options,
                            const std::optional<Plan>& kept = std::nullopt);

}  // namespace dlrm
