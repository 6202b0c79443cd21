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
  void bottom() { multiply("bottom", work_.dense.bottom); }
  void interact();
  void top() {
    multiply("top", work_.dense.top);
    launch_linear("top");
  }

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
  struct Numbered {
    const ProductWork* product;
    size_t number;  ///< in forward order
  };

  void pass(const char* stage, const PassWork& pass);
  void launch_linear(const char* stage);
  void elements(const char* stage, double of_a_sample);
  /// A product, or one of its two gradients.
  Point product(const char* stage, RankTasks::Lane lane, const std::vector<Point>& after,
                const ProductWork& product);
  void multiply(const char* stage, const std::vector<ProductWork>& products);
  void multiply_back(const std::vector<ProductWork>& products, size_t first);
  bool is_held(const Numbered& product) const;
  void sum(size_t product, Point computed, Point after);

  const StepWork& work_;
  RankTasks& tasks_;
  std::vector<Numbered> held_;
  Point held_gradient_ = -1;  ///< the last one
  std::vector<Point> gradients_;
  std::vector<Point> sums_;  ///< by bucket
};

}  // namespace dlrm
