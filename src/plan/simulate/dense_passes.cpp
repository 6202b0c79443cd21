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
  multiply_back(work_.dense.top, work_.dense.bottom.size() + work_.dense.interaction.size());
}

void DensePasses::interact_back() {
  multiply_back(work_.dense.interaction, work_.dense.bottom.size());
  pass("backward", work_.dense.interact_backward);
}

void DensePasses::finish_gradients() {
  for (size_t b = 0; b < sums_.size(); ++b) {
    gradients_.push_back(tasks_.finish(kSum, work_.buckets[b], sums_[b]));
  }
  tasks_.compute("allreduce", RankTasks::kMain, gradients_,
                 [](size_t) { return RankTasks::Demand{}; });
}

void DensePasses::pass(const char* stage, const PassWork& pass) {
  tasks_.compute(stage, RankTasks::kMain, {}, [&](size_t rank) {
    const double samples = work_.ranks[rank].samples;
    return RankTasks::Demand{samples * pass.bytes, samples * pass.flops};
  });
}

void DensePasses::multiply(const char* stage, const std::vector<ProductWork>& products) {
  for (const ProductWork& product : products) {
    tasks_.compute(stage, RankTasks::kMain, {}, [&](size_t rank) { return demand(product, rank); });
  }
}

void DensePasses::multiply_back(const std::vector<ProductWork>& products, size_t first) {
  for (size_t i = products.size(); i-- > 0;) {
    const auto demand_of = [&](size_t rank) { return demand(products[i], rank); };
    const Point output_gradient = tasks_.main();
    if (products[i].input_gradient) tasks_.compute("backward", RankTasks::kMain, {}, demand_of);
    sum(first + i, tasks_.compute("backward", RankTasks::kWeights, {output_gradient}, demand_of));
  }
}

/// Sums the buckets that are complete with the gradient of this product.
void DensePasses::sum(size_t product, Point computed) {
  gradients_.push_back(computed);
  for (size_t b = 0; b < work_.buckets.size(); ++b) {
    if (work_.dense.bucket_products[b] != product) continue;
    sums_[b] = tasks_.start(kSum, RankTasks::kSums, work_.buckets[b], {computed, tasks_.main()});
  }
}

/// A product, or one of its two gradients.
RankTasks::Demand DensePasses::demand(const ProductWork& product, size_t rank) const {
  return demand_of(product, work_.dense.element_bytes, work_.ranks[rank].samples);
}

}  // namespace dlrm
