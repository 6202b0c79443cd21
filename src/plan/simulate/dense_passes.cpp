#include "dense_passes.h"

namespace dlrm {
namespace {

constexpr const char* kSum = "sum of dense gradients";

}  // namespace

void DensePasses::interact() {
  pass("interact", work_.dense.interact_forward, work_.launches.interact);
  multiply("interact", work_.dense.interaction, work_.launches.interact);
}

void DensePasses::top_back() {
  gradients_.clear();
  sums_.assign(work_.buckets.size(), -1);
  multiply_back(work_.dense.top, work_.dense.bottom.size() + work_.dense.interaction.size());
}

void DensePasses::interact_back() {
  multiply_back(work_.dense.interaction, work_.dense.bottom.size());
  pass("backward", work_.dense.interact_backward, work_.launches.input_gradients);
}

void DensePasses::held_gradients() {
  const Point operands = tasks_.main();
  for (const auto& [product, number] : held_) {
    const auto demand_of = [&, of = product](size_t rank) {
      return demand(*of, rank, work_.launches.weight_gradients);
    };
    held_gradients_.push_back(
        tasks_.compute("backward", RankTasks::kWeights, {operands}, demand_of));
  }
}

void DensePasses::held_sums(Point point) {
  for (size_t i = 0; i < held_.size(); ++i) sum(held_[i].number, held_gradients_.back(), point);
  held_.clear();
  held_gradients_.clear();
}

void DensePasses::finish_gradients() {
  for (size_t b = 0; b < sums_.size(); ++b) {
    gradients_.push_back(tasks_.finish(kSum, work_.buckets[b], sums_[b]));
  }
  tasks_.compute("allreduce", RankTasks::kMain, gradients_,
                 [&](size_t) { return RankTasks::Demand{.launches = work_.launches.sums}; });
}

void DensePasses::pass(const char* stage, const PassWork& pass, double launches) {
  tasks_.compute(stage, RankTasks::kMain, {}, [&](size_t rank) {
    const double samples = work_.ranks[rank].samples;
    return RankTasks::Demand{samples * pass.bytes, samples * pass.flops, 0, 0, launches};
  });
}

void DensePasses::multiply(const char* stage, const std::vector<ProductWork>& products,
                           double launches) {
  for (const ProductWork& product : products) {
    tasks_.compute(stage, RankTasks::kMain, {},
                   [&](size_t rank) { return demand(product, rank, launches); });
    elements(stage, product.forward_passes);
  }
}

/// GPUs do this with the product.
void DensePasses::elements(const char* stage, double of_a_sample) {
  if (tasks_.speed().gpu || of_a_sample <= 0) return;
  pass(stage, {0, work_.dense.element_bytes * of_a_sample}, 1);
}

void DensePasses::multiply_back(const std::vector<ProductWork>& products, size_t first) {
  for (size_t i = products.size(); i-- > 0;) {
    const auto input = [&](size_t rank) {
      return demand(products[i], rank, work_.launches.input_gradients);
    };
    const auto weight = [&](size_t rank) {
      return demand(products[i], rank, work_.launches.weight_gradients);
    };
    elements("backward", products[i].backward_passes);
    const Point output_gradient = tasks_.main();
    if (products[i].input_gradient) tasks_.compute("backward", RankTasks::kMain, {}, input);
    if (is_held(products[i], first + i)) {
      held_.push_back({&products[i], first + i});
      continue;
    }
    sum(first + i, tasks_.compute("backward", RankTasks::kWeights, {output_gradient}, weight), -1);
  }
}

/// As Parameters does, of which a layer with one output is no part.
bool DensePasses::is_held(const ProductWork& product, size_t number) const {
  return tasks_.speed().gpu && !work_.buckets.front().empty() && product.outputs > 1 &&
         number < work_.dense.bucket_products.front();
}

/// Sums the buckets that are complete with the gradient of this product.
void DensePasses::sum(size_t product, Point computed, Point after) {
  gradients_.push_back(computed);
  for (size_t b = 0; b < work_.buckets.size(); ++b) {
    if (work_.dense.bucket_products[b] != product) continue;
    sums_[b] =
        tasks_.start(kSum, RankTasks::kSums, work_.buckets[b], {computed, tasks_.main(), after});
  }
}

/// A product, or one of its two gradients.
RankTasks::Demand DensePasses::demand(const ProductWork& product, size_t rank,
                                      double launches) const {
  RankTasks::Demand demand =
      demand_of(product, work_.dense.element_bytes, work_.ranks[rank].samples, tasks_.speed());
  demand.launches = launches;
  return demand;
}

}  // namespace dlrm
