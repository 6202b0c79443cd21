#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/nn/interaction.h"

#include "guarded_device.h"
#include "one_rank.h"

namespace dlrm {
namespace {

/// A small network on the fp64 reference: an interaction of X and E, an MLP, and a loss that is a
/// weighted sum of the outputs. Gradients are compared with central differences.
class Network {
 public:
  Network(const InteractionConfig& interaction, InteractionInputs in, int64_t batch,
          Activation act = Activation::kRelu, const std::vector<int64_t>& hidden = {},
          const HiddenLayers& also = {}, const std::vector<FeatureVectors>& projected = {})
      : batch_(batch),
        parameters_(rank_.context, *ops_, OptimizerRule::kSgd, DType::kFloat32, DType::kFloat32),
        bottom_(rank_.context, *ops_, parameters_, "/mlp/bottom", in.dense,
                bottom_layers(in, hidden), act, act, DType::kFloat32, batch, also),
        x_(random(batch * in.dense)),
        e_(random(batch * embeddings(in, projected))),
        de_(e_.size()),
        dx_(static_cast<size_t>(batch * in.dense)) {
    interaction_ = make_interaction(
        interaction, {rank_.context, *ops_, parameters_, DType::kFloat32, batch, in, projected});
    top_ = std::make_unique<Mlp>(rank_.context, *ops_, parameters_, "/mlp/top",
                                 interaction_->width(), layers(6, hidden, 1), act,
                                 Activation::kNone, DType::kFloat32, batch, also);
    parameters_.allocate();
    parameters_.initialise(3, 0);
    weights_ = random(batch);
    dz_.resize(static_cast<size_t>(batch * interaction_->width()));
  }

  double loss() {
    const Matrix x = bottom_.forward(matrix(x_), counted_, &place_);
    const Matrix z = interaction_->forward(x, matrix(e_), counted_);
    const Matrix y = top_->forward(z, counted_, &place_);
    double sum = 0;
    for (int64_t s = 0; s < batch_; ++s) sum += weights_[static_cast<size_t>(s)] * y.f32()(s, 0);
    return sum;
  }

  void backward() {
    loss();
    std::vector<float> dy = weights_;
    top_->backward(matrix(dy), matrix(dz_), counted_);
    interaction_->backward(matrix(dz_), matrix(dx_), matrix(de_), counted_);
    bottom_.backward(matrix(dx_), Matrix(), counted_);
    parameters_.finish_gradients();
  }

  void expect_difference_quotient(float* value, float gradient, const std::string& what) {
    const float before = *value;
    const float step = 1e-2f;
    *value = before + step;
    const double high = loss();
    *value = before - step;
    const double low = loss();
    *value = before;
    const double quotient = (high - low) / (2.0 * step);
    EXPECT_NEAR(gradient, quotient, 2e-3 * (1 + std::abs(quotient))) << what;
  }

  void expect_gradients() {
    backward();
    const std::vector<float> de = de_;
    for (size_t i = 0; i < e_.size(); ++i) expect_difference_quotient(&e_[i], de[i], "e");
    const int tensors = static_cast<int>(parameters_.tensors().size());
    for (int t = 0; t < tensors; ++t) {
      const auto& tensor = parameters_.tensors()[static_cast<size_t>(t)];
      for (int64_t i = 0; i < tensor.size(); ++i) {
        expect_difference_quotient(parameters_.values(t) + i,
                                   parameters_.bias_gradient(t).data()[i], tensor.path);
      }
    }
  }

  /// The calls so far.
  int progress() const { return progress_; }

 private:
  static int64_t embeddings(const InteractionInputs& in,
                            const std::vector<FeatureVectors>& projected) {
    int64_t width = 0;
    for (const FeatureVectors& feature : projected) width += feature.width;
    return projected.empty() ? in.embeddings : width;
  }
  static std::vector<int64_t> layers(int64_t first, std::vector<int64_t> hidden, int64_t last) {
    hidden.insert(hidden.begin(), first);
    hidden.push_back(last);
    return hidden;
  }
  static std::vector<int64_t> bottom_layers(const InteractionInputs& in,
                                            const std::vector<int64_t>& hidden) {
    if (in.dense == 0) return {};
    return layers(5, hidden, in.dense);
  }
  std::vector<float> random(int64_t n) {
    std::uniform_real_distribution<float> draw(0.2f, 1.0f);
    std::vector<float> values(static_cast<size_t>(n));
    for (float& v : values) v = draw(random_);
    return values;
  }
  Matrix matrix(std::vector<float>& v) const {
    return {v.data(), DType::kFloat32, batch_, static_cast<int64_t>(v.size()) / batch_};
  }

  const DropoutPlace place_{100, 7};
  std::mt19937 random_{11};
  int64_t batch_;
  OneRank rank_{make_guarded_device(64)};
  std::unique_ptr<Ops> ops_ = make_reference_ops(*rank_.device, *rank_.stream);
  int progress_ = 0;
  Progress counted_ = [this] { ++progress_; };
  Parameters parameters_;
  Mlp bottom_;
  std::unique_ptr<Interaction> interaction_;
  std::unique_ptr<Mlp> top_;
  std::vector<float> x_, e_, de_, dx_, dz_, weights_;
};

constexpr InteractionInputs kEqualWidths{4, 12, 3};

/// Exchanges in flight move on between layers.
TEST(EveryInteraction, MakesProgressInBothPasses) {
  for (const InteractionConfig& config :
       {InteractionConfig(DotConfig()), InteractionConfig(CrossConfig{2, 4})}) {
    Network network(config, kEqualWidths, 2);
    network.loss();
    const int forward = network.progress();
    EXPECT_GT(forward, 0);
    network.backward();
    EXPECT_GT(network.progress(), 2 * forward);
  }
}

TEST(DotInteraction, GradientsMatchFiniteDifferences) {
  Network(DotConfig(), kEqualWidths, 3).expect_gradients();
}

TEST(ConcatInteraction, GradientsMatchFiniteDifferences) {
  Network(ConcatConfig(), {3, 7, 2}, 2).expect_gradients();
}

TEST(ConcatInteraction, GradientsWithPoolingAndDenseLastMatchFiniteDifferences) {
  Network(ConcatConfig{ConcatOrder::kDenseLast, 3}, {3, 7, 2}, 2).expect_gradients();
}

TEST(EveryInteraction, GradientsThroughProjectionsMatchFiniteDifferences) {
  const std::vector<std::vector<FeatureVectors>> widths = {{{"a", 4}, {"b", 7}, {"c", 1}},
                                                           {{"a", 2}, {"b", 4}, {"c", 4}},
                                                           {{"a", 5}, {"b", 3}, {"c", 9}}};
  for (const std::vector<FeatureVectors>& projected : widths) {
    Network(DotConfig(), kEqualWidths, 3, Activation::kTanh, {}, {}, projected).expect_gradients();
    Network(FmConfig(), {0, 12, 3}, 2, Activation::kTanh, {}, {}, projected).expect_gradients();
  }
}

TEST(CrossInteraction, GradientsMatchFiniteDifferences) {
  for (const int64_t layers : {1, 2, 3}) {
    for (const int64_t rank : {4, 0}) {
      Network(CrossConfig{layers, rank}, {3, 5, 1}, 2).expect_gradients();
    }
  }
}

TEST(FmInteraction, GradientsMatchFiniteDifferences) {
  Network(FmConfig(), kEqualWidths, 3).expect_gradients();
}

TEST(EveryInteraction, GradientsWithoutDenseFeaturesMatchFiniteDifferences) {
  const auto check = [](const InteractionConfig& interaction, InteractionInputs in) {
    Network(interaction, in, 3, Activation::kTanh).expect_gradients();
  };
  check(DotConfig(), {0, 12, 3});
  check(DotConfig(), {0, 6, 2});  // one product
  check(FmConfig(), {0, 12, 3});
  check(FmConfig(), {0, 4, 1});
  check(ConcatConfig{ConcatOrder::kDenseLast, 3}, {0, 7, 2});
  check(CrossConfig{2, 4}, {0, 5, 1});
}

/// Memory of a matrix of a type.
struct Typed {
  Typed(DType type, int64_t rows, int64_t cols)
      : bytes(static_cast<size_t>(rows * cols) * size_of(type)),
        matrix(bytes.data(), type, rows, cols) {}

  std::vector<char> bytes;
  Matrix matrix;
};

std::vector<float> floats_of(Ops& ops, const Matrix& m) {
  std::vector<float> values(static_cast<size_t>(m.rows * m.cols));
  if (!values.empty()) ops.convert(m, MatrixView<float>(values.data(), m.rows, m.cols));
  return values;
}

/// Z, dE and dX of an interaction of numbers of few bits. If `in_place`, E and dE are at the places
/// that it offers.
struct Computed {
  std::vector<float> z, de, dx;
};
Computed computed_by(const InteractionConfig& config, InteractionInputs in, DType compute,
                     bool in_place) {
  constexpr int64_t kMost = 5, kBatch = 3;
  OneRank rank{make_guarded_device(64)};
  const std::unique_ptr<Ops> ops = make_reference_ops(*rank.device, *rank.stream);
  Parameters parameters(rank.context, *ops, OptimizerRule::kSgd, compute, DType::kFloat32);
  const auto made = make_interaction(config, {rank.context, *ops, parameters, compute, kMost, in});
  parameters.allocate();
  parameters.initialise(3, 0);
  std::vector<float> e, x, z(static_cast<size_t>(kBatch * made->width()));
  for (int i = 0; i < kBatch * in.embeddings; ++i) e.push_back(static_cast<float>(i % 11 - 5) / 4);
  for (int i = 0; i < kBatch * in.dense; ++i) x.push_back(static_cast<float>(i % 7 - 2) / 4);
  const Typed dense(compute, kBatch, in.dense), apart(compute, kBatch, in.embeddings);
  const Matrix from = dense.matrix;
  ops->convert(MatrixView<float>(x.data(), kBatch, in.dense), from);
  Matrix embeddings = apart.matrix;
  const bool may_be_in_place =
      std::visit([](const auto& i) { return i.embeddings_in_place(); }, config);
  EXPECT_EQ(made->place_of_embeddings().data != nullptr, may_be_in_place);
  if (in_place) {
    const Matrix place = made->place_of_embeddings();
    EXPECT_EQ(place.type, compute);
    EXPECT_EQ(place.rows, kMost);
    EXPECT_EQ(place.cols, in.embeddings);
    embeddings = place.row_range(0, kBatch);
  }
  ops->convert(MatrixView<float>(e.data(), kBatch, in.embeddings), embeddings);
  const Matrix out = made->forward(from, embeddings, [] {});
  Computed all;
  all.z = floats_of(*ops, out);
  const Typed dz(compute, kMost, made->width());
  const Matrix all_dz = dz.matrix;
  const Matrix gradient = all_dz.row_range(0, kBatch);
  for (size_t i = 0; i < z.size(); ++i) z[i] = static_cast<float>(i % 13) / 2 - 3;
  ops->convert(MatrixView<float>(z.data(), kBatch, made->width()), gradient);
  const Typed de_apart(compute, kBatch, in.embeddings);
  Matrix de = de_apart.matrix;
  EXPECT_EQ(made->place_of_gradients(all_dz).data != nullptr, may_be_in_place);
  if (const Matrix place = made->place_of_gradients(all_dz); in_place && place.data) {
    EXPECT_EQ(place.type, compute);
    EXPECT_EQ(place.rows, kMost);
    de = place.row_range(0, kBatch);
  }
  const Matrix dx = in.dense > 0 ? from : Matrix();
  made->backward(gradient, dx, de, [] {});
  all.de = floats_of(*ops, de);
  all.dx = floats_of(*ops, dx);
  return all;
}

TEST(EveryInteraction, OfShortNumbersWithoutDenseFeaturesIsTheSameInBf16) {
  for (const InteractionConfig& config :
       {InteractionConfig(DotConfig()), InteractionConfig(FmConfig())}) {
    const Computed wide = computed_by(config, {0, 6, 3}, DType::kFloat32, false);
    const Computed narrow = computed_by(config, {0, 6, 3}, DType::kBFloat16, false);
    EXPECT_EQ(narrow.z, wide.z);
    EXPECT_EQ(narrow.de, wide.de);
  }
}

TEST(EveryInteraction, ThatOffersPlacesForEmbeddingsComputesTheSameThere) {
  for (const InteractionConfig& config :
       {InteractionConfig(ConcatConfig()), InteractionConfig(ConcatConfig{ConcatOrder::kDenseLast}),
        InteractionConfig(CrossConfig{2, 4})}) {
    for (const DType compute : {DType::kFloat32, DType::kBFloat16}) {
      for (const InteractionInputs in : {InteractionInputs{3, 7, 2}, {0, 5, 1}, {8, 16, 2}}) {
        const Computed placed = computed_by(config, in, compute, true);
        const Computed apart = computed_by(config, in, compute, false);
        EXPECT_EQ(placed.z, apart.z);
        EXPECT_EQ(placed.de, apart.de);
        EXPECT_EQ(placed.dx, apart.dx);
      }
    }
  }
}

TEST(Mlp, GradientsOfSmoothActivationsMatchFiniteDifferences) {
  for (const Activation act :
       {Activation::kGelu, Activation::kSilu, Activation::kSigmoid, Activation::kTanh}) {
    Network(DotConfig(), kEqualWidths, 3, act).expect_gradients();
  }
}

TEST(Mlp, GradientsThroughDropoutMatchFiniteDifferences) {
  for (const Activation act : {Activation::kRelu, Activation::kGelu, Activation::kSigmoid}) {
    Network(DotConfig(), kEqualWidths, 3, act, {8, 7}, {.dropout = 0.3, .seed = 5})
        .expect_gradients();
  }
}

TEST(Mlp, GradientsThroughLayerNormsMatchFiniteDifferences) {
  for (const Activation act : {Activation::kGelu, Activation::kSigmoid, Activation::kTanh}) {
    Network(DotConfig(), kEqualWidths, 3, act, {8, 7}, {.layer_norm = true}).expect_gradients();
  }
  Network(DotConfig(), kEqualWidths, 3, Activation::kTanh, {8}, {0.3, 5, true}).expect_gradients();
}

TEST(Mlp, GradientsOfManyLayersMatchFiniteDifferences) {
  for (const std::vector<int64_t>& hidden :
       {std::vector<int64_t>{4}, std::vector<int64_t>{7, 3}, std::vector<int64_t>{3, 8, 4, 6}}) {
    Network(DotConfig(), kEqualWidths, 3, Activation::kTanh, hidden).expect_gradients();
  }
}

}  // namespace
}  // namespace dlrm
