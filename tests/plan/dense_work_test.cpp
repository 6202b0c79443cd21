// The work of the dense layers in a simulated step, as numbers for each interaction.
#include "dlrm/plan/launches.h"

#include "plan/simulate/step_work.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

/// Dense layers 13-7-4, three features of width 4, top layers of 5 and 1.
RunConfig small_config(const InteractionConfig& interaction) {
  RunConfig config = config_of({table("a", 100, 4), table("b", 50, 4, {1, 3})}, 8);
  config.model.bottom_mlp = {7, 4};
  config.model.top_mlp = {5, 1};
  config.model.interaction = interaction;
  return config;
}

std::string text_of(const DenseWork& work) {
  std::string text;
  for (const auto* products : {&work.bottom, &work.interaction, &work.top}) {
    for (const ProductWork& p : *products) {
      text += fmt::format("{}x{}:{}{} ", p.inputs, p.outputs, p.parameters,
                          p.input_gradient ? "" : " without dx");
    }
    text += "| ";
  }
  text += fmt::format("forward {} {} backward {} {} | ", work.interact_forward.bytes,
                      work.interact_forward.flops, work.interact_backward.bytes,
                      work.interact_backward.flops);
  return text + fmt::format("elements of {}, update {} of {}", work.element_bytes,
                            work.update_bytes, work.parameters);
}

TEST(DenseWorkOf, ConcatCopiesX) {
  EXPECT_EQ(text_of(dense_work(small_config(ConcatConfig()), false)),
            "13x7:98 without dx 7x4:32 | | 16x5:85 5x1:6 | forward 32 0 backward 32 0 | "
            "elements of 4, update 2652 of 221");
}

TEST(DenseWorkOf, FmAddsSquares) {
  EXPECT_EQ(text_of(dense_work(small_config(FmConfig()), false)),
            "13x7:98 without dx 7x4:32 | | 17x5:90 5x1:6 | forward 132 48 backward 196 32 | "
            "elements of 4, update 2712 of 226");
}

TEST(DenseWorkOf, DotMultipliesFourVectors) {
  EXPECT_EQ(text_of(dense_work(small_config(DotConfig()), false)),
            "13x7:98 without dx 7x4:32 | | 10x5:55 5x1:6 | forward 104 128 backward 168 256 | "
            "elements of 4, update 2292 of 191");
}

TEST(DenseWorkOf, CrossHasTwoProductsALayer) {
  EXPECT_EQ(text_of(dense_work(small_config(CrossConfig{2, 3}), false)),
            "13x7:98 without dx 7x4:32 | 16x3:48 3x16:64 16x3:48 3x16:64 | 16x5:85 5x1:6 | "
            "forward 416 0 backward 672 0 | elements of 4, update 5340 of 445");
}

TEST(DenseWorkOf, Bf16HalvesActivationsAndAdamReadsItsState) {
  RunConfig config = small_config(DotConfig());
  config.train.precision = Precision::kBf16;
  config.train.dense_optimizer.type = OptimizerRule::kAdam;
  EXPECT_EQ(text_of(dense_work(config, false)),
            "13x7:98 without dx 7x4:32 | | 10x5:55 5x1:6 | forward 52 128 backward 84 256 | "
            "elements of 2, update 5348 of 191");
}

TEST(StepWork, GradientsOfCopiedTablesTravelWithTheSecondBucketOfGpus) {
  RunConfig config =
      config_of({table("a", 1000, 16, {3}), table("b", 50, 16)}, 64, Strategy::kTable);
  config.model.interaction = DotConfig();
  config.model.top_mlp = {1024, 512, 512, 1};
  config.sharding.tables[config.model.tables[0].name] = Strategy::kDataParallel;
  config.sharding.machine = std::string(DLRM_SOURCE) + "/configs/machines/h200_dgx.json";
  const PlanOptions options{0, 8, 0, true};
  config = with_known_device(config, options);
  const Plan plan = make_plan(config, 4, options);
  ASSERT_EQ(plan.data_parallel.size(), 1u);
  const StepWork joined = step_work(config, plan, options);
  ASSERT_EQ(joined.buckets.size(), 2u);
  EXPECT_TRUE(joined.joins_copies);
  EXPECT_TRUE(joined.replicas.empty());
  EXPECT_GT(joined.ranks[0].copy_update_bytes, 0);
  EXPECT_GT(joined.ranks[0].copy_gradient_bytes, 0);
  const TableConfig& table = config.model.tables[0];
  const double bytes = 4.0 * static_cast<double>(table.rows * (table.dim + 1));
  EXPECT_NEAR(joined.buckets[1].local_bytes,
              all_reduce(joined.dense.bucket_bytes[1] + bytes, 4, 8).local_bytes, 1);
  const int collectives = step_launches(config, plan)[0].collectives;
  config.train.wire.dense = DType::kBFloat16;
  const StepWork apart = step_work(config, plan, options);
  EXPECT_FALSE(apart.joins_copies);
  EXPECT_FALSE(apart.replicas.empty());
  EXPECT_EQ(step_launches(config, plan)[0].collectives, collectives + 2 + 1);  // two a bucket
  EXPECT_FALSE(step_work(config, make_plan(config, 1, options), options).sums_copies());
}

}  // namespace
}  // namespace dlrm::plan_test
