// Exchanges in flight move on between layers: each layer calls the progress once.
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/nn/interaction.h"
#include "dlrm/nn/mlp.h"

#include "guarded_device.h"
#include "one_rank.h"

namespace dlrm {
namespace {

class LayerProgress : public testing::Test {
 protected:
  static constexpr int64_t kBatch = 2;

  Matrix matrix(int64_t columns) {
    const auto count = static_cast<size_t>(kBatch * columns);
    return {memory_.emplace_back(count, 0.5f).data(), DType::kFloat32, kBatch, columns};
  }
  /// The calls of a forward and of a backward.
  template <class Forward, class Backward>
  std::pair<int, int> calls_of(const Forward& forward, const Backward& backward) {
    parameters_.allocate();
    parameters_.initialise(1, 0);
    std::pair<int, int> calls{0, 0};
    forward([&] { ++calls.first; });
    backward([&] { ++calls.second; });
    return calls;
  }

  OneRank rank_{make_guarded_device(64)};
  std::unique_ptr<Ops> ops_ = make_reference_ops(*rank_.device, *rank_.stream);
  Parameters parameters_{rank_.context, *ops_, OptimizerRule::kSgd, DType::kFloat32,
                         DType::kFloat32};
  std::vector<std::vector<float>> memory_;
};

using Calls = std::pair<int, int>;

TEST_F(LayerProgress, IsMadeAfterEachLayerOfAnMlp) {
  Mlp mlp(rank_.context, *ops_, parameters_, "/mlp/top", 3, {8, 5, 1}, Activation::kRelu,
          Activation::kNone, DType::kFloat32, kBatch);
  const auto calls =
      calls_of([&](const Progress& progress) { mlp.forward(matrix(3), progress); },
               [&](const Progress& progress) { mlp.backward(matrix(1), matrix(3), progress); });
  EXPECT_EQ(calls, (Calls{3, 3}));
}

TEST_F(LayerProgress, IsMadeAfterEachCrossLayer) {
  const auto cross = make_interaction(
      CrossConfig{2, 4}, {rank_.context, *ops_, parameters_, DType::kFloat32, kBatch, {3, 6, 2}});
  const auto calls =
      calls_of([&](const Progress& progress) { cross->forward(matrix(3), matrix(6), progress); },
               [&](const Progress& progress) {
                 cross->backward(matrix(cross->width()), matrix(3), matrix(6), progress);
               });
  EXPECT_EQ(calls, (Calls{2, 2}));
}

}  // namespace
}  // namespace dlrm
