#include "dense_passes.h"

namespace dlrm {
namespace {

constexpr const char* kSum = "sum of dense gradients";

}  // namespace

void DensePasses::interact() {
  pass("interact", work_.dense.interact_forward);
  multiply("interact", work_.dense.interaction);
}

void DensePasses::top_back() {
  gradients_.clear();
  sums_.assign(work_.buckets.size(), -1);
  launch_linear("backward");
  multiply_back(work_.dense.top, work_.dense.bottom.size() + work_.dense.interaction.size());
}

void DensePasses::interact_back() {
  multiply_back(work_.dense.interaction, work_.dense.bottom.size());
  pass("backward", work_.dense.interact_backward);
}

void DensePasses::held_gradients() {
  const Point operands = tasks_.main();
  for (const Numbered& held : held_) {
    held_gradient_ = product("backward", RankTasks::kWeights, {operands}, *held.product);
  }
}

void DensePasses::held_sums(Point point) {
  for (const Numbered& held : held_) sum(held.number, held_gradient_, point);
  held_.clear();
}

void DensePasses::finish_gradients() {
  for (size_t b = 0; b < sums_.size(); ++b) {
    gradients_.push_back(tasks_.finish(kSum, work_.buckets[b], sums_[b]));
  }
  tasks_.keep_busy("allreduce", RankTasks::kMain, gradients_, 1, [](size_t) { return 0; });
}

void DensePasses::pass(const char* stage, const PassWork& pass) {
  tasks_.compute(stage, RankTasks::kMain, {}, [&](size_t rank) {
    const double samples = work_.ranks[rank].samples;
    return Demand{samples * pass.bytes, samples * pass.flops};
  });
}

/// Its bytes are the interaction's, its products the top's.
void DensePasses::launch_linear(const char* stage) {
  if (work_.dense.linear_launches == 0) return;
  tasks_.compute(stage, RankTasks::kMain, {},
                 [&](size_t) { return Demand{.launches = work_.dense.linear_launches}; });
}

/// GPUs do this with the product.
void DensePasses::elements(const char* stage, double of_a_sample) {
  if (tasks_.speed().gpu || of_a_sample <= 0) return;
  pass(stage, {0, work_.dense.element_bytes * of_a_sample});
}

DensePasses::Point DensePasses::product(const char* stage, RankTasks::Lane lane,
                                        const std::vector<Point>& after,
                                        const ProductWork& product) {
  return tasks_.compute(stage, lane, after, [&](size_t rank) {
    return demand_of(product, work_.dense.element_bytes, work_.ranks[rank].samples, tasks_.speed());
  });
}

void DensePasses::multiply(const char* stage, const std::vector<ProductWork>& products) {
  for (const ProductWork& one : products) {
    product(stage, RankTasks::kMain, {}, one);
    elements(stage, one.forward_passes);
  }
}

void DensePasses::multiply_back(const std::vector<ProductWork>& products, size_t first) {
  for (size_t i = products.size(); i-- > 0;) {
    const Numbered one{&products[i], first + i};
    elements("backward", products[i].backward_passes);
    const Point output_gradient = tasks_.main();
    if (products[i].input_gradient) product("backward", RankTasks::kMain, {}, products[i]);
    if (is_held(one)) {
      held_.push_back(one);
    } else {
      sum(one.number, product("backward", RankTasks::kWeights, {output_gradient}, products[i]), -1);
    }
  }
}

/// As Parameters does, of which a layer with one output is no part.
bool DensePasses::is_held(const Numbered& one) const {
  return tasks_.speed().gpu && !work_.buckets.front().empty() && one.product->outputs > 1 &&
         one.number < work_.dense.bucket_products.front();
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

}  // namespace dlrm
