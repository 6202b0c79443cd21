// Calls that ShardedEmbeddings refuses, and calls that may be left out.
#include <functional>

#include <gtest/gtest.h>

#include "training.h"

namespace dlrm::testing {
namespace {

TEST(RefusedCalls, NameTheBatchesInFlight) {
  EmbeddingOptions options = options_for(odd_tables(Pooling::kSum), OptimizerRule::kSgd);
  options.cached.policy = "static";
  options.cached.fast = "75%";
  Plan plan = plan_of("table", options.tables, 1);
  for (Shard& shard : plan.shards) shard.tier = MemoryTier::kCached;
  const auto comm = make_self_comm();
  Rank rank(*comm);
  ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
  const auto no_batch = [] { return false; };
  EXPECT_EQ(embeddings.keep_hot_rows(no_batch), 0);
  EXPECT_EQ(error_of([&] { embeddings.keep_sizes(); }), "");
  route(embeddings, *comm, MadeUpBags(options.tables), 0, 4);
  EXPECT_EQ(error_of([&] { embeddings.keep_sizes(); }), "keep_sizes(): 1 batches are in flight");
  EXPECT_EQ(error_of([&] { embeddings.keep_hot_rows(no_batch); }),
            "keep_hot_rows(): 1 batches are in flight");
  embeddings.drop();
}

TEST(RefusedCalls, NeedPlacesOfEveryBatchsVectors) {
  const EmbeddingOptions options = options_for(odd_tables(Pooling::kSum), OptimizerRule::kSgd);
  run_on_threads(3, [&](Communicator& comm) {  // 22, 21 and 21 of 64 samples
    Rank rank(comm);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options,
                                 plan_of("table", options.tables, 3));
    const int64_t width = embeddings.width();
    const Array<float> values(*rank.device, static_cast<size_t>(22 * (width + 1)), "a place");
    const auto errors = [&](int64_t rows, int64_t cols) {
      const MatrixView<float> place(values.data(), rows, cols);
      return std::pair(error_of([&] { embeddings.pool_into(place); }),
                       error_of([&] { embeddings.read_gradients_from(place); }));
    };
    for (const auto& [rows, cols] :
         {std::pair{int64_t{21}, width}, {22, width - 1}, {22, width + 1}}) {
      const auto [pooled, read] = errors(rows, cols);
      const std::string said = fmt::format("a place of {} x {} for 22 x {}", rows, cols, width);
      EXPECT_NE(pooled.find(said), std::string::npos) << pooled;
      EXPECT_NE(read.find(said), std::string::npos) << read;
    }
    EXPECT_EQ(errors(22, width), (std::pair<std::string, std::string>("", "")));
  });
}

TEST(RefusedCalls, NeedAPlaceOfAllGradientsOfCopiedTables) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const EmbeddingOptions options = options_for(odd_tables(Pooling::kSum), OptimizerRule::kSgd);
  int64_t elements = 0;
  for (const TableConfig& table : options.tables) elements += table.rows * (table.dim + 1);
  run_on_threads(2, [&](Communicator& comm) {
    for (const char* kind : {"table", "data_parallel"}) {
      const int64_t summed = kind == std::string("table") ? 0 : elements;
      Rank rank(comm, OnGpu{/*nccl=*/true});
      ShardedEmbeddings embeddings(rank.context, *rank.ops, options,
                                   plan_of(kind, options.tables, 2));
      EXPECT_EQ(embeddings.summed_gradients(), summed);
      const Array<float> place(*rank.device, static_cast<size_t>(elements + 1), "a place");
      const auto too_long = place.view().first(static_cast<size_t>(summed + 1));
      EXPECT_NE(error_of([&] {
                  embeddings.sum_gradients_in(too_long);
                }).find(fmt::format("a place of {} gradients for {}", summed + 1, summed)),
                std::string::npos);
    }
    Rank on_cpu(comm);
    const EmbeddingOptions summed_alone =
        options_for({table_of("tiny", 2, 3, {2}, Pooling::kSum)}, OptimizerRule::kSgd);
    const ShardedEmbeddings embeddings(on_cpu.context, *on_cpu.ops, summed_alone,
                                       plan_of("data_parallel", summed_alone.tables, 2));
    EXPECT_EQ(embeddings.summed_gradients(), 0);
  });
}

TEST(RefusedCalls, NeedAPlanOfTheRanksAndTablesThatCanBeTrained) {
  EmbeddingOptions options = options_for(odd_tables(Pooling::kSum), OptimizerRule::kSgd);
  const auto comm = make_self_comm();
  Rank rank(*comm);
  const auto error_with = [&](const Plan& plan) {
    return error_of([&] { ShardedEmbeddings(rank.context, *rank.ops, options, plan); });
  };
  EXPECT_EQ(error_with(plan_of("table", options.tables, 2)),
            "the sharding plan is for 2 ranks, but 1 run");
  EXPECT_EQ(error_with(plan_of("table", options.tables, 1)), "");
  Plan cut_short = plan_of("table", options.tables, 1);
  cut_short.shards.front().rows.end -= 1;
  EXPECT_NE(error_with(cut_short).find("sharding plan"), std::string::npos);
  options.tables[2].dtype = DType::kFloat16;
  EXPECT_NE(error_with(plan_of("table", options.tables, 1)).find("table tiny in fp16"),
            std::string::npos);
}

/// Trains (t), or trains without sort_ids() (u). Looks up and drops, after sort_ids() (s) or
/// without it (d), or drops right after the lookup (l).
Tensors trained_on_gpus(const Plan& plan, const EmbeddingOptions& options,
                        const std::string& course) {
  const MadeUpBags bags(options.tables);
  Tensors result;
  run_on_threads(plan.world, [&](Communicator& comm) {
    Rank rank(comm, OnGpu());
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
    for (size_t t = 0; t < course.size(); ++t) {
      const auto step = static_cast<int64_t>(t);
      const bool sorts = course[t] == 't' || course[t] == 's';
      route(embeddings, comm, bags, step, 16);
      embeddings.await_ids();
      embeddings.prepare_ids();
      embeddings.lookup();
      if (course[t] == 'l') {
        embeddings.drop();
        continue;
      }
      embeddings.start_return();
      if (sorts) embeddings.sort_ids();
      std::vector<float> values = values_of(rank.context, embeddings.finish_return().f32());
      if (course[t] == 's' || course[t] == 'd') {
        embeddings.drop();
        continue;
      }
      const int64_t first = part_of(16, comm.rank(), comm.size()).begin, w = embeddings.width();
      for (int64_t i = 0; i < std::ssize(values); ++i) {
        float& value = values[static_cast<size_t>(i)];
        value = static_cast<float>(made_up_gradient(step, first + i / w, i % w, value));
      }
      const MatrixView<float> de = embeddings.gradient().f32();
      Transfer(*rank.device, *rank.stream)
          .write_rows(de.data, de.stride, de.rows, de.cols, values.data());
      embeddings.start_backward();
      embeddings.update(options.optimizer.lr, step);
    }
    const Tensors tensors = gather(comm, embeddings);
    if (comm.rank() == 0) result = tensors;
  });
  return result;
}

TEST(SortIds, MayBeLeftOut) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const EmbeddingOptions options =
      options_for(odd_tables(Pooling::kSum), OptimizerRule::kRowwiseAdagrad);
  for (const char* kind : {"mixed", "column", "data_parallel"}) {
    const Plan plan = plan_of(kind, options.tables, 2);
    const Tensors expected = trained_on_gpus(plan, options, "tdttddt");
    EXPECT_EQ(trained_on_gpus(plan, options, "usutdsu"), expected) << kind;
    EXPECT_EQ(trained_on_gpus(plan, options, "tltullt"), expected) << kind;
  }
}

}  // namespace
}  // namespace dlrm::testing
