#include "dlrm/nn/parameters.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/nn/interaction.h"
#include "dlrm/nn/mlp.h"

#include "guarded_device.h"

namespace dlrm {
namespace {

struct Rank {
  explicit Rank(Communicator& comm) : context{*device, *stream, comm, trace, log} {}
  std::shared_ptr<Device> device = make_guarded_device(64);
  std::unique_ptr<Stream> stream = device->make_stream();
  Trace trace;
  Log log;
  Context context;
  std::unique_ptr<Ops> ops = make_reference_ops(*device, *stream);
};

TEST(Parameters, InitialWeightsHaveTheRequestedVariance) {
  const auto comm = make_self_comm();
  Rank rank(*comm);
  Parameters p(rank.context, *rank.ops, OptimizerRule::kSgd, DType::kFloat32, DType::kFloat32);
  const int w = p.add("/mlp/top/0/weight", 200, 300, 0.5);
  const int zero = p.add("/cross/0/bias", 10, 0, 0);
  p.allocate();
  p.initialise(1, 0);
  double squares = 0;
  for (int64_t i = 0; i < 60000; ++i) squares += std::pow(p.values(w)[i], 2);
  EXPECT_NEAR(squares / 60000, 0.25, 0.01);
  for (int64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(p.values(zero)[i], 0);
    EXPECT_FALSE(std::signbit(p.values(zero)[i]));  // nothing was drawn
  }
}

TEST(Parameters, LayersAreDrawnWithTheDeviationsOfTheirShapes) {
  const auto comm = make_self_comm();
  Rank rank(*comm);
  Parameters p(rank.context, *rank.ops, OptimizerRule::kSgd, DType::kFloat32, DType::kFloat32);
  const auto cross = make_interaction(CrossConfig{2, 7},
                                      {rank.context, *rank.ops, p, DType::kFloat32, 4, {3, 20, 2}});
  const Mlp mlp(rank.context, *rank.ops, p, "/mlp/top", cross->width(), {11, 5}, Activation::kRelu,
                Activation::kNone, DType::kFloat32, 4);
  const std::map<std::string, double> expected = {{"/cross/0/v", 2.0 / (23 + 7)},
                                                  {"/cross/0/u", 2.0 / (23 + 7)},
                                                  {"/cross/0/bias", 0},
                                                  {"/cross/1/v", 2.0 / (23 + 7)},
                                                  {"/cross/1/u", 2.0 / (23 + 7)},
                                                  {"/cross/1/bias", 0},
                                                  {"/mlp/top/0/weight", 2.0 / (23 + 11)},
                                                  {"/mlp/top/0/bias", 1.0 / 11},
                                                  {"/mlp/top/1/weight", 2.0 / (11 + 5)},
                                                  {"/mlp/top/1/bias", 1.0 / 5}};
  ASSERT_EQ(p.tensors().size(), expected.size());
  for (const Parameters::Tensor& t : p.tensors()) {
    EXPECT_NEAR(t.deviation * t.deviation, expected.at(t.path), 1e-12) << t.path;
  }
}

TEST(Parameters, AnMlpWithoutLayersPassesOnWhatItGets) {
  const auto comm = make_self_comm();
  Rank rank(*comm);
  Parameters p(rank.context, *rank.ops, OptimizerRule::kSgd, DType::kFloat32, DType::kFloat32);
  Mlp mlp(rank.context, *rank.ops, p, "/mlp/bottom", 3, {}, Activation::kRelu, Activation::kRelu,
          DType::kFloat32, 2);
  p.allocate();
  std::vector<float> x = {1, -2, 3, 4, -5, 6}, dy = {7, 8, 9, 10, 11, 12}, dx(6);
  const auto matrix = [](std::vector<float>& v) { return Matrix(v.data(), DType::kFloat32, 2, 3); };
  EXPECT_EQ(mlp.outputs(), 3);
  EXPECT_EQ(mlp.forward(matrix(x), [] {}).data, x.data());
  mlp.backward(matrix(dy), matrix(dx), [] {});
  EXPECT_EQ(dx, dy);
  EXPECT_TRUE(mlp.activations().empty());
}

TEST(Parameters, OnlyStatesThatAccumulateStartAboveZero) {
  for (const auto& [rule, first, second] : {std::tuple{OptimizerRule::kAdagrad, 0.25f, 0.0f},
                                            {OptimizerRule::kAdam, 0.0f, 0.0f},
                                            {OptimizerRule::kFtrl, 0.0f, 0.25f},
                                            {OptimizerRule::kLamb, 0.0f, 0.0f}}) {
    const auto comm = make_self_comm();
    Rank rank(*comm);
    Parameters p(rank.context, *rank.ops, rule, DType::kFloat32, DType::kFloat32);
    const int w = p.add("/w", 3, 5, 1.0);
    p.allocate();
    p.initialise(1, 0.25f);
    const int states = traits_of(rule).state_count();
    for (int64_t i = 0; i < 15; ++i) {
      EXPECT_EQ(p.state(0, w)[i], first) << traits_of(rule).name;
      if (states > 1) {
        EXPECT_EQ(p.state(1, w)[i], second) << traits_of(rule).name;
      }
    }
  }
}

TEST(Parameters, TheFirstThatIsNotFiniteIsNamed) {
  const auto comm = make_self_comm();
  Rank rank(*comm);
  Parameters p(rank.context, *rank.ops, OptimizerRule::kSgd, DType::kFloat32, DType::kFloat32);
  const int a = p.add("/a", 3, 5, 1.0), b = p.add("/b", 7, 0, 1.0);
  p.allocate();
  p.initialise(1, 0);
  for (const int t : {a, b}) std::fill_n(p.weight_gradient(t).data, t == a ? 15 : 7, 1.0f);
  const auto flag = [&] {
    std::vector<float> flag{0};
    p.find_non_finite_values(flag);
    return flag[0];
  };
  EXPECT_EQ(p.first_bad_tensor(), std::nullopt);
  EXPECT_EQ(flag(), 0);
  p.weight_gradient(b).data[6] = INFINITY;
  EXPECT_EQ(p.first_bad_tensor(), "/b");
  EXPECT_EQ(flag(), 0);  // a gradient is no value
  p.weight_gradient(a).data[0] = NAN;
  EXPECT_EQ(p.first_bad_tensor(), "/a");
  p.values(b)[0] = -INFINITY;
  EXPECT_EQ(p.first_bad_tensor(), "/b");  // values precede gradients
  EXPECT_EQ(flag(), 1);
}

TEST(Parameters, GradientsOfEveryRankAreSummedWhateverTheBuckets) {
  run_on_threads(3, [](Communicator& comm) {
    Rank rank(comm);
    Parameters p(rank.context, *rank.ops, OptimizerRule::kSgd, DType::kFloat32, DType::kFloat32);
    const std::vector<int64_t> rows = {1, 700, 3, 500, 1000};  // several buckets of 256 Ki elements
    std::vector<int> tensors;
    for (const int64_t r : rows) {
      tensors.push_back(p.add("/t" + std::to_string(r), r, 411, 0));
    }
    p.allocate();
    p.initialise(1, 0);
    for (int step = 0; step < 2; ++step) {
      for (size_t i = rows.size(); i-- > 0;) {
        const MatrixView<float> g = p.weight_gradient(tensors[i]);
        for (int64_t k = 0; k < g.rows * g.cols; ++k) {
          g.data[k] = static_cast<float>((k % 97) * (comm.rank() + 1) + step);
        }
        p.gradients_ready_from(tensors[i]);
      }
      p.finish_gradients();
      for (const int t : tensors) {
        const MatrixView<float> g = p.weight_gradient(t);
        for (int64_t k = 0; k < g.rows * g.cols; ++k) {
          ASSERT_EQ(g.data[k], static_cast<float>((k % 97) * 6 + 3 * step));
        }
      }
    }
  });
}

TEST(Parameters, Bf16CopiesFollowTheMasters) {
  const auto comm = make_self_comm();
  Rank rank(*comm);
  Parameters p(rank.context, *rank.ops, OptimizerRule::kSgd, DType::kBFloat16, DType::kFloat32);
  const int w = p.add("/w", 3, 5, 1.0);
  const int b = p.add("/b", 3, 0, 1.0);
  p.allocate();
  const auto expect_copies = [&](const char* when) {
    const auto* copy = static_cast<const BFloat16*>(p.weight(w).data);
    for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(copy[i].bits, BFloat16(p.values(w)[i]).bits) << when;
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(p.rounded_bias(b)[i].bits, BFloat16(p.bias(b)[i]).bits) << when;
    }
  };
  p.initialise(1, 0);
  EXPECT_NE(p.values(w)[14], 0);
  expect_copies("at the start");
  // As a checkpoint is loaded.
  for (const TensorShard& piece : p.shards(true)) {
    std::vector<float> row(static_cast<size_t>(piece.columns.size()));
    for (int64_t r = 0; r < piece.rows.size(); ++r) {
      for (size_t c = 0; c < row.size(); ++c) row[c] = static_cast<float>(7 * r) + 1.5f;
      piece.write(r, 1, row.data());
    }
  }
  p.refresh_copies();
  EXPECT_EQ(p.values(w)[14], 15.5f);
  expect_copies("after a load");
  for (int64_t i = 0; i < 15; ++i) p.weight_gradient(w).data[i] = static_cast<float>(i);
  for (size_t i = 0; i < 3; ++i) p.bias_gradient(b)[i] = static_cast<float>(i + 5);
  p.gradients_ready_from(w);
  p.finish_gradients();
  OptimizerStep step;
  step.lr = 0.25f;
  p.update(step);
  EXPECT_EQ(p.values(w)[14], 12);
  expect_copies("after an update");
}

/// Two layers [3, 5] and [4, 3] with biases, as a fused update of Adagrad sees them.
struct FusedLayers {
  std::unique_ptr<Communicator> comm = make_self_comm();
  Rank rank{*comm};
  Parameters p{rank.context, *rank.ops, OptimizerRule::kAdagrad, DType::kFloat32, DType::kFloat32};
  int tensors[4] = {p.add("/0/weight", 3, 5, 0), p.add("/0/bias", 3, 0, 0),
                    p.add("/1/weight", 4, 3, 0), p.add("/1/bias", 4, 0, 0)};
  std::vector<float> x = std::vector<float>(10, 1), y = std::vector<float>(8, 1);
  std::vector<float> dy = std::vector<float>(8, 1);
  OptimizerStep step;

  FusedLayers() {
    p.allocate();
    p.initialise(1, 1);
    step.rule = OptimizerRule::kAdagrad;
    step.lr = 0.5f;
  }
  void backward(int layer) {
    const int64_t in = layer == 0 ? 5 : 3, out = layer == 0 ? 3 : 4;
    LinearBackward of;
    of.x = Matrix(x.data(), DType::kFloat32, 2, in);
    of.y = Matrix(y.data(), DType::kFloat32, 2, out);
    std::fill(dy.begin(), dy.end(), 1.0f);
    of.dy = Matrix(dy.data(), DType::kFloat32, 2, out);
    p.linear_backward(of, tensors[2 * layer], tensors[2 * layer + 1]);
  }
};

TEST(FusedUpdate, AppliesEachLayerAsSoonAsItsGradientIsComplete) {
  FusedLayers layers;
  Parameters& p = layers.p;
  const float stepped = -0.5f * 2 / std::sqrt(1.0f + 4);  // both samples have gradient 1
  for (int round = 0; round < 2; ++round) {
    p.initialise(1, 1);
    ASSERT_TRUE(p.begin_fused_update(layers.step));
    layers.backward(1);
    EXPECT_NEAR(p.values(layers.tensors[2])[11], stepped, 1e-6);
    EXPECT_NEAR(p.values(layers.tensors[3])[3], stepped, 1e-6);
    EXPECT_EQ(p.values(layers.tensors[0])[0], 0);
    EXPECT_THROW(p.update(layers.step), std::exception);  // the other layer is missing
    layers.backward(0);
    p.finish_gradients();
    p.update(layers.step);
    EXPECT_NEAR(p.values(layers.tensors[0])[14], stepped, 1e-6);
    EXPECT_NEAR(p.values(layers.tensors[1])[2], stepped, 1e-6);
    EXPECT_NEAR(p.values(layers.tensors[3])[3], stepped, 1e-6);  // once
  }
}

TEST(FusedUpdate, DoesNotStartIfGradientsAreClipped) {
  const auto comm = make_self_comm();
  Rank rank(*comm);
  Parameters p(rank.context, *rank.ops, OptimizerRule::kSgd, DType::kFloat32, DType::kFloat32,
               /*clip_norm=*/1);
  const int a = p.add("/a", 2, 3, 0), b = p.add("/b", 2, 0, 0);
  p.allocate();
  OptimizerStep step;
  step.lr = 1;
  EXPECT_FALSE(p.begin_fused_update(step));
  std::fill_n(p.weight_gradient(a).data, 6, 2.0f);
  std::fill_n(p.bias_gradient(b).data(), 2, 6.0f);
  p.gradients_ready_from(a);
  p.finish_gradients();
  p.update(step);
  const float norm = std::sqrt(6 * 4.0f + 2 * 36.0f);  // of both tensors together
  EXPECT_NEAR(p.values(a)[5], -2 / norm, 1e-6);
  EXPECT_NEAR(p.values(b)[1], -6 / norm, 1e-6);
}

TEST(FusedUpdate, AppliesGradientsThatNoLayerComputes) {
  FusedLayers layers;
  Parameters& p = layers.p;
  ASSERT_TRUE(p.begin_fused_update(layers.step));
  for (const int t : {2, 3}) std::fill_n(p.weight_gradient(layers.tensors[t]).data, 4, 2.0f);
  p.gradients_ready_from(layers.tensors[2]);
  EXPECT_NEAR(p.values(layers.tensors[2])[3], -0.5f * 2 / std::sqrt(5.0f), 1e-6);
  EXPECT_NEAR(p.values(layers.tensors[3])[3], -0.5f * 2 / std::sqrt(5.0f), 1e-6);
  p.gradients_ready_from(layers.tensors[2]);  // nothing is left
  EXPECT_NEAR(p.values(layers.tensors[3])[3], -0.5f * 2 / std::sqrt(5.0f), 1e-6);
}

}  // namespace
}  // namespace dlrm
