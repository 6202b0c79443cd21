// What a trainer takes from the configuration, and the algorithms that it saves and restores.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/session.h"
#include "dlrm/train/trainer.h"

#include "noted_ops.h"
#include "train/small_run.h"
#include "train/test_rank.h"

namespace dlrm {
namespace {

TEST(Trainer, InitialisedAgainTrainsAsANewOne) {
  for (const OptimizerPair& pair : optimizer_pairs()) {
    RunConfig config = odd_model();
    config.train.dense_optimizer.type = pair.dense;
    config.train.sparse_optimizer.type = pair.sparse;
    const auto comm = make_self_comm();
    TestRank rank(*comm, config);
    Trainer trainer(rank.context, *rank.ops, config, make_plan(config, 1), true);
    const auto train = [&] {
      std::vector<std::vector<float>> values;
      for (int64_t step = 0; step < 2; ++step) {
        trainer.route(odd_batch(config, step, 0, 1));
        trainer.step(step, false);
      }
      for (const TensorShard& shard : trainer.shards()) {
        values.emplace_back(static_cast<size_t>(shard.rows.size() * shard.columns.size()));
        shard.read(0, shard.rows.size(), values.back().data());
      }
      return values;
    };
    const auto first = train();
    EXPECT_NE(train(), first);
    trainer.initialise();
    EXPECT_EQ(train(), first) << traits_of(pair.dense).name << ", " << traits_of(pair.sparse).name;
  }
}

/// Operations that chose algorithms of their own, and note which are restored.
class TunedOps final : public NotedOps<TunedOps> {
 public:
  TunedOps(std::unique_ptr<Ops> chosen, std::string tuned)
      : NotedOps(std::move(chosen)), tuned_(std::move(tuned)) {}
  std::vector<std::byte> tuned_algorithms() const override {
    std::vector<std::byte> bytes(tuned_.size());
    std::transform(tuned_.begin(), tuned_.end(), bytes.begin(),
                   [](char c) { return static_cast<std::byte>(c); });
    return bytes;
  }
  void restore_tuned_algorithms(View<const std::byte> bytes) override {
    restored.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  std::vector<std::string> restored;

 private:
  friend NotedOps;
  template <class Operation>
  void note(const Operation&) {}

  std::string tuned_;
};

TEST(Trainer, SavesTheAlgorithmsOfEachRankAndRestoresThemOnAsManyRanks) {
  using Texts = std::vector<std::string>;
  const Texts tuned = {"of rank 0", "", "rank 2"};
  run_on_threads(3, [&](Communicator& comm) {
    const RunConfig config = odd_model();
    const auto mine = static_cast<size_t>(comm.rank());
    TestRank rank(comm, config);
    TunedOps ops(std::move(rank.ops), tuned[mine]);
    Trainer trainer(rank.context, ops, config, make_plan(config, 3), true);
    EXPECT_EQ(trainer.tuned_algorithms(), tuned);
    trainer.restore_tuned_algorithms({"a", "b"});
    trainer.restore_tuned_algorithms({});
    trainer.restore_tuned_algorithms({"a", "b", "c", "d"});
    EXPECT_EQ(ops.restored, Texts{});
    trainer.restore_tuned_algorithms({"a", "bb", "ccc"});
    EXPECT_EQ(ops.restored, Texts{(Texts{"a", "bb", "ccc"})[mine]});
  });
}

}  // namespace
}  // namespace dlrm
