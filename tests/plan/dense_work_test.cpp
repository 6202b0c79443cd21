// The work of the dense layers in a simulated step.
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

double flops_of(const DenseWork& work) {
  double flops = work.interact_forward.flops;
  for (const auto* products : {&work.bottom, &work.interaction, &work.top}) {
    for (const ProductWork& product : *products) flops += product.flops();
  }
  return flops;
}

TEST(DenseWorkOf, EachInteractionHasItsProducts) {
  const double bottom = 2 * (13 * 7 + 7 * 4);
  const auto top = [](double width) { return 2 * (width * 5 + 5); };
  EXPECT_EQ(flops_of(dense_work(small_config(ConcatConfig()), false)), bottom + top(16));
  EXPECT_EQ(flops_of(dense_work(small_config(FmConfig()), false)), bottom + top(17) + 3 * 16);
  EXPECT_EQ(flops_of(dense_work(small_config(DotConfig()), false)),
            bottom + top(10) + 2 * 4 * 4 * 4);
  EXPECT_EQ(flops_of(dense_work(small_config(CrossConfig{2, 3}), false)),
            bottom + top(16) + 2 * 4 * 16 * 3);
  EXPECT_EQ(flops_of(dense_work(small_config(CrossConfig{2, 0}), false)),
            bottom + top(16) + 2 * 2 * 16 * 16);
}

TEST(DenseWorkOf, ALinearPartReadsTheDenseFeaturesOnceMore) {
  for (const InteractionConfig& interaction : {InteractionConfig(ConcatConfig()), {FmConfig()}}) {
    RunConfig config = small_config(interaction);
    const DenseWork plain = dense_work(config, false);
    config.model.linear = true;
    config.model.add_linear_tables();
    const DenseWork linear = dense_work(config, false);
    EXPECT_EQ(flops_of(linear), flops_of(plain) + 2 * 13);
    EXPECT_EQ(linear.parameters, plain.parameters + 13);
    EXPECT_GT(linear.interact_forward.bytes, plain.interact_forward.bytes);
  }
}

TEST(DenseWorkOf, Bf16HalvesActivationsAndAdamReadsItsState) {
  RunConfig config = small_config(DotConfig());
  const DenseWork sgd = dense_work(config, false);
  EXPECT_EQ(sgd.update_bytes, sgd.parameters * 4 * 3);
  config.train.precision = Precision::kBf16;
  config.train.dense_optimizer.type = OptimizerRule::kAdam;
  const DenseWork adam = dense_work(config, false);
  EXPECT_EQ(adam.interact_forward.bytes, sgd.interact_forward.bytes / 2);
  EXPECT_EQ(adam.update_bytes, adam.parameters * 4 * (3 + 2 * 2));
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
  config.train.wire.dense = DType::kBFloat16;
  const StepWork apart = step_work(config, plan, options);
  EXPECT_FALSE(apart.joins_copies);
  EXPECT_FALSE(apart.replicas.empty());
  EXPECT_FALSE(step_work(config, make_plan(config, 1, options), options).sums_copies());
}

}  // namespace
}  // namespace dlrm::plan_test
