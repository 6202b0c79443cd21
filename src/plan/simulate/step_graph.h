#pragma once
#include <optional>
#include <vector>

#include "dense_passes.h"
#include "rank_tasks.h"
#include "step_work.h"

namespace dlrm {

/// Adds the tasks of a training step in the order in which Trainer makes them
/// (docs/architecture.md). Lookups and sorts are on the side lane. A task of a GPU stands
/// for a few launches, about as many as the emulator counts.
class StepGraph {
 public:
  /// The arguments must outlive the graph.
  StepGraph(const StepWork& work, RankTasks& tasks)
      : work_(work), tasks_(tasks), dense_(work, tasks) {}

  void add_step();

 private:
  using Point = RankTasks::Point;

  Point read(Point after);
  Point route();
  void forward(Point ids);
  Point sum_in_nodes(RankTasks::Lane lane, Point after, bool forward);
  void backward();
  void update();
  void update_rows(std::vector<Point> after);
  Point sort();

  /// Vectors, or their gradients, between messages and E. If nothing is sent, lookups write E.
  Demand copied(double bytes, double launches) const {
    return {.bytes = work_.pooled.empty() ? 0 : bytes, .launches = launches};
  }

  /// compute() with a demand that depends on the rank's work.
  template <class DemandOf>
  Point compute(const char* stage, RankTasks::Lane lane, const std::vector<Point>& after,
                const DemandOf& demand) {
    return tasks_.compute(stage, lane, after, [&](size_t r) { return demand(work_.ranks[r]); });
  }

  const StepWork& work_;
  RankTasks& tasks_;
  DensePasses dense_;
  Point loss_ = -1;
  std::optional<Point> read_;  ///< the batch that readers make ahead
  std::optional<Point> ids_;   ///< of the batch that was routed ahead
  Point sorted_ = -1, gradients_ = -1, copies_ = -1;
};

}  // namespace dlrm
