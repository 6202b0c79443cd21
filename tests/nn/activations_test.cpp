// The outputs of layers in which the origin of a value that is not finite is looked for: all of
// each layer's values, in the order in which they are computed.
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/nn/interaction.h"

#include "one_rank.h"

namespace dlrm {
namespace {

using Names = std::vector<std::string>;

struct ActivationsCase {
  const char* name;
  InteractionConfig config;
  InteractionInputs in;
  Names layers;  ///< each with the columns of its output
};

std::vector<ActivationsCase> activations_cases() {
  const InteractionInputs inputs{5, 15, 3}, no_dense{0, 15, 3};
  ConcatConfig last, pooled;
  last.order = ConcatOrder::kDenseLast;
  pooled.average_pool = 4;
  return {
      {"dot", DotConfig(), inputs, {"/interaction/dot 11"}},
      {"dot_of_embeddings", DotConfig(), no_dense, {"/interaction/dot 3"}},
      {"fm", FmConfig(), inputs, {"/interaction/fm 21"}},
      {"fm_of_embeddings", FmConfig(), no_dense, {"/interaction/fm 16"}},
      {"concat", ConcatConfig(), inputs, {"/interaction/concat 20"}},
      {"concat_dense_last", last, inputs, {"/interaction/concat 20"}},
      {"concat_pooled", pooled, inputs, {"/interaction/concat 9"}},
      {"cross_of_rank_4",
       CrossConfig{3, 4},
       inputs,
       {"/interaction/concat 20", "/cross/0 20", "/cross/1 20", "/cross/2 20"}},
      {"cross_of_rank_1", CrossConfig{1, 1}, inputs, {"/interaction/concat 20", "/cross/0 20"}},
      {"cross_of_full_rank", CrossConfig{1, 0}, inputs, {"/interaction/concat 20", "/cross/0 20"}},
      {"cross_of_rank_30", CrossConfig{1, 30}, no_dense, {"/interaction/concat 15", "/cross/0 15"}},
  };
}

class Layers : public testing::Test {
 protected:
  Matrix matrix(std::vector<float>& values, int64_t rows, int64_t columns) const {
    return {values.data(), DType::kFloat32, rows, columns};
  }

  OneRank rank_{make_cpu_device()};
  std::unique_ptr<Ops> ops_ = make_reference_ops(*rank_.device, *rank_.stream);
};

class Activations : public Layers, public testing::WithParamInterface<ActivationsCase> {};

TEST_P(Activations, OfAnInteractionAreAllOutputsOfItsLayers) {
  const ActivationsCase& c = GetParam();
  constexpr int64_t kBatch = 3, kMost = 7;
  Parameters parameters(rank_.context, *ops_, OptimizerRule::kSgd, DType::kFloat32,
                        DType::kFloat32);
  const auto made =
      make_interaction(c.config, {rank_.context, *ops_, parameters, DType::kFloat32, kMost, c.in});
  parameters.allocate();
  parameters.initialise(3, 0);
  std::vector<float> x(static_cast<size_t>(kBatch * c.in.dense), 0.5f),
      e(static_cast<size_t>(kBatch * c.in.embeddings), 0.25f);
  const auto forward = [&] {
    return made->forward(matrix(x, kBatch, c.in.dense), matrix(e, kBatch, c.in.embeddings), [] {});
  };
  const Matrix z = forward();
  const auto all = made->activations();
  Names layers;
  std::vector<const void*> places;
  for (const auto& [path, output] : all) {
    layers.push_back(path + " " + std::to_string(output.cols));
    EXPECT_EQ(output.rows, kBatch) << path;
    EXPECT_GE(output.stride, output.cols) << path;
    EXPECT_THAT(places, testing::Not(testing::Contains(output.data)));
    places.push_back(output.data);
  }
  EXPECT_EQ(layers, c.layers);
  EXPECT_EQ(all.back().second.data, z.data);
  EXPECT_EQ(z.cols, made->width());
  // An infinite input of any sample shows in the outputs.
  for (int64_t s = 0; s < kBatch; ++s) {
    float& value = e[static_cast<size_t>((s + 1) * c.in.embeddings - 1)];
    value = std::numeric_limits<float>::infinity();
    forward();
    for (const auto& [path, output] : made->activations()) {
      float found = 0;
      ops_->find_non_finite(output.row_range(s, 1), {&found, 1});
      EXPECT_NE(found, 0) << path << ", sample " << s;
    }
    value = 0.25f;
  }
}

INSTANTIATE_TEST_SUITE_P(Nn, Activations, testing::ValuesIn(activations_cases()),
                         [](const auto& info) { return info.param.name; });

TEST_F(Layers, OfAnMlpHaveActivationsOfAllTheirOutputs) {
  for (const Activation act : {Activation::kRelu, Activation::kGelu}) {
    Parameters parameters(rank_.context, *ops_, OptimizerRule::kSgd, DType::kFloat32,
                          DType::kFloat32);
    Mlp mlp(rank_.context, *ops_, parameters, "/a", 4, {6, 2, 3}, act, Activation::kNone,
            DType::kFloat32, 7);
    parameters.allocate();
    parameters.initialise(3, 0);
    std::vector<float> x(5 * 4, 1.0f);
    const Matrix y = mlp.forward(matrix(x, 5, 4), [] {});
    Names layers;
    for (const auto& [path, output] : mlp.activations()) {
      layers.push_back(path.substr(2) + fmt::format(" {} x {}", output.rows, output.cols));
    }
    EXPECT_THAT(layers, testing::ElementsAre("/0 5 x 6", "/1 5 x 2", "/2 5 x 3"));
    EXPECT_EQ(mlp.activations().back().second.data, y.data);
  }
}

}  // namespace
}  // namespace dlrm
