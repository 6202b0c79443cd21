// The dense part of a model, with embeddings of its own.
#include "dlrm/train/model.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "train/small_run.h"
#include "train/test_rank.h"

namespace dlrm {
namespace {

/// A model on a CPU, and the inputs of three samples.
class OneModel {
 public:
  explicit OneModel(const RunConfig& config)
      : dense(static_cast<size_t>(kSamples * config.model.dense_features), 0.3f),
        e(static_cast<size_t>(kSamples * config.model.embedding_width()), 0.7f),
        rank_(*comm_, config),
        model_(rank_.context, *rank_.ops, config) {
    model_.parameters().initialise(3, 0);
  }

  Matrix fp32() { return {e.data(), DType::kFloat32, kSamples, std::ssize(e) / kSamples}; }
  std::vector<float> predict(const Matrix& embeddings) {
    const Progress none = [] {};
    model_.bottom(View<const float>(dense), kSamples, none);
    model_.interact(embeddings, none);
    model_.top(none);
    model_.start_probabilities();
    std::vector<float> p(kSamples);
    model_.finish_probabilities(View<float>(p), none);
    return p;
  }
  std::optional<std::string> first_bad_output() {
    predict(fp32());
    return model_.first_bad_output();
  }

  static constexpr int64_t kSamples = 3;
  std::vector<float> dense, e;

 private:
  std::unique_ptr<Communicator> comm_ = make_self_comm();
  TestRank rank_;
  Model model_;
};

/// A server has embeddings in fp32 for every model.
TEST(Model, EmbeddingsInFp32AreRoundedToItsOwnType) {
  RunConfig config = odd_model();
  config.train.precision = Precision::kBf16;
  OneModel model(config);
  for (size_t i = 0; i < model.e.size(); ++i) model.e[i] = 1 + static_cast<float>(i) / 1000;
  std::vector<BFloat16> rounded(model.e.begin(), model.e.end());
  const Matrix as_it_is = model.fp32();
  const std::vector<float> p = model.predict(as_it_is);
  EXPECT_EQ(p, model.predict({rounded.data(), DType::kBFloat16, as_it_is.rows, as_it_is.cols}));
  EXPECT_NE(p[0], p[1]);
}

TEST(Model, TheFirstPartThatIsNotFiniteIsNamed) {
  constexpr float kMost = std::numeric_limits<float>::max();
  for (const InteractionConfig& interaction : [] {
         std::vector<InteractionConfig> all = other_interactions();
         all.emplace_back(DotConfig());
         return all;
       }()) {
    RunConfig config = odd_model();
    config.model.interaction = interaction;
    OneModel model(config);
    EXPECT_EQ(model.first_bad_output(), std::nullopt);
    // Finite vectors, whose products and sums are not.
    model.e.assign(model.e.size(), kMost);
    const char* const paths[] = {"/interaction/dot", "/interaction/concat", "/cross/0",
                                 "/interaction/fm"};
    EXPECT_EQ(model.first_bad_output(), paths[interaction.index()]);
    model.e.back() = std::nanf("");
    EXPECT_EQ(model.first_bad_output(), "embeddings");
    model.dense.back() = HUGE_VALF;
    EXPECT_EQ(model.first_bad_output(), "/mlp/bottom/0");
  }
}

}  // namespace
}  // namespace dlrm
