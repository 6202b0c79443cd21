// The shards of a trainer, through which checkpoints read and write its tensors.
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/trainer.h"

#include "small_run.h"
#include "test_rank.h"

namespace dlrm {
namespace {

/// A value that every type holds exactly, different for neighbouring cells.
float value_of(int64_t row, int64_t column) {
  return static_cast<float>((row * 7 + column * 3) % 127 + 1);
}

class Shards : public ::testing::TestWithParam<DeviceKind> {};
INSTANTIATE_TEST_SUITE_P(All, Shards, ::testing::ValuesIn(devices()), [](const auto& info) {
  return info.param == DeviceKind::kCpu ? "cpu" : "cuda";
});

TEST_P(Shards, AreWrittenAndReadInParts) {
  RunConfig c = odd_model();
  c.device = GetParam();
  c.train.sparse_optimizer.type = c.train.dense_optimizer.type = OptimizerRule::kAdam;
  c.model.tables[3].dtype = DType::kBFloat16;
  for (const int ranks : {1, 2}) {
    run_on_threads(ranks, [&](Communicator& comm) {
      TestRank rank(comm, c);
      Trainer trainer(rank.context, *rank.ops, c, make_plan(c, ranks), true);
      std::map<std::string, int> seen;
      for (const TensorShard& shard : trainer.shards()) {
        ++seen[shard.path];
        const int64_t rows = shard.rows.size(), columns = shard.columns.size();
        const auto cells = [&](int64_t first, int64_t count) {
          std::vector<float> part;
          for (int64_t i = 0; i < count * columns; ++i) {
            part.push_back(value_of(first + i / columns, i % columns));
          }
          return part;
        };
        for (int64_t r = 0; r < rows; r += 2) {
          shard.write(r, std::min<int64_t>(2, rows - r), cells(r, 2).data());
        }
        std::vector<float> all(static_cast<size_t>(rows * columns));
        shard.read(0, rows, all.data());
        EXPECT_EQ(all, cells(0, rows)) << shard.path;
        for (int64_t r = 0; r < rows; r += 3) {
          const int64_t count = std::min<int64_t>(3, rows - r);
          std::vector<float> part(static_cast<size_t>(count * columns));
          shard.read(r, count, part.data());
          EXPECT_EQ(part, cells(r, count)) << shard.path << " from row " << r;
        }
      }
      if (ranks > 1) return;
      for (const char* path : {"/tables/wide/weight", "/tables/wide/adam_m", "/tables/wide/adam_v",
                               "/mlp/top/0/weight", "/mlp/top/0/bias_adam_v"}) {
        EXPECT_EQ(seen[path], 1) << path;
      }
    });
  }
}

TEST(TrainerSeed, ChoosesTheWeightsOfTablesAndLayers) {
  const auto weights = [](uint64_t seed) {
    RunConfig c = odd_model();
    c.train.seed = seed;
    return train_on_threads(c, 1, 0).tensors;
  };
  const auto one = weights(1), same = weights(1), other = weights(2);
  EXPECT_EQ(one, same);
  for (const char* path : {"/tables/wide/weight", "/mlp/top/0/weight"}) {
    EXPECT_NE(one.at(path), other.at(path)) << path;
  }
}

}  // namespace
}  // namespace dlrm
