#pragma once
#include <vector>

#include "rank_tasks.h"
#include "step_work.h"

namespace dlrm {

/// Adds the products of the dense layers, and the sums of their gradients.
class DensePasses {
 public:
  using Point = RankTasks::Point;

  /// The arguments must outlive the object.
  DensePasses(const StepWork& work, RankTasks& tasks) : work_(work), tasks_(tasks) {}

  /// Forward passes. The interaction's includes its products.
  void bottom() { multiply("bottom", work_.dense.bottom, work_.launches.bottom); }
  void interact();
  void top() { multiply("top", work_.dense.top, work_.launches.top); }

  /// Backward passes, of which the first one begins a step. Input gradients follow each other on
  /// the main lane. On a GPU weight gradients do not delay them, and those of several ranks are
  /// held back unless they are in the first bucket. A bucket is summed as soon as it is complete.
  void top_back();
  void interact_back();
  void bottom_back() { multiply_back(work_.dense.bottom, 0); }

  /// Adds the weight gradients that were held back, and later their sums, which begin after
  /// `point`.
  void held_gradients();
  void held_sums(Point point);

  /// The sum of the first bucket. -1 if nothing is summed.
  Point first_sum() const { return sums_.empty() ? -1 : sums_.front(); }
  /// The sum of the last bucket.
  Point last_sum() const { return sums_.empty() ? -1 : sums_.back(); }
  /// Waits for all gradients since top_back(), and for their sums.
  void finish_gradients();

 private:
  void pass(const char* stage, const PassWork& pass, double launches);
  void elements(const char* stage, double of_a_sample);
  void multiply(const char* stage, const std::vector<ProductWork>& products, double launches);
  void multiply_back(const std::vector<ProductWork>& products, size_t first);
  bool is_held(const ProductWork& product, size_t number) const;
  void sum(size_t product, Point computed, Point after);
  RankTasks::Demand demand(const ProductWork& product, size_t rank, double launches) const;

  const StepWork& work_;
  RankTasks& tasks_;
  struct Held {
    const ProductWork* product;
    size_t number;
  };

  std::vector<Held> held_;
  std::vector<Point> held_gradients_;  ///< of held_
  std::vector<Point> gradients_;
  std::vector<Point> sums_;  ///< by bucket
};

}  // namespace dlrm
