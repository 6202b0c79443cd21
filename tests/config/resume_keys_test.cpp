#include "sample_config.h"

namespace dlrm {
namespace {

using Keys = std::vector<std::string>;

Keys blocked_by(const std::vector<std::string>& overrides) {
  return keys_that_block_resume(small_config(), small_config(overrides));
}

TEST(KeysThatBlockResume, EqualConfigsDifferInNoKey) { EXPECT_EQ(blocked_by({}), Keys{}); }

TEST(KeysThatBlockResume, KeysThatAResumedRunMayChangeAreLeftOut) {
  for (const char* free :
       {"train.steps=7", "train.epochs=9", "output.directory=elsewhere", "output.metrics_every=1",
        "checkpoint={directory: c, every_steps: 3, at_end: true, keep: 9}", "eval.every_steps=4",
        "sharding={strategy: row, tables: {t: column}, plan: p.json}", "routing.depth=3",
        "memory={tier: host, tables: {C1: device}, device: 2GiB, cached: {fast: 3%}}", "device=cpu",
        "comm=mpi", "train.threads=2", "train.timeout=10", "data.workers=1", "data.prefetch=1",
        "data.train=moved.h5", "data.test=other.h5"}) {
    EXPECT_EQ(blocked_by({free}), Keys{}) << free;
  }
}

TEST(KeysThatBlockResume, EveryOtherDifferenceIsNamed) {
  EXPECT_EQ(blocked_by({"train.seed=2", "train.sparse_optimizer.lr=2"}),
            (Keys{"train.seed", "train.sparse_optimizer.lr"}));
  EXPECT_EQ(blocked_by({"train.global_batch_size=2"}), Keys{"train.global_batch_size"});
  EXPECT_EQ(blocked_by({"data.shuffle=false"}), Keys{"data.shuffle"});
  EXPECT_EQ(blocked_by({"data.source=replay"}), Keys{"data.source"});
  EXPECT_EQ(blocked_by({"train.wire.dense=bf16"}), Keys{"train.wire.dense"});
  EXPECT_EQ(blocked_by({"train.lr_schedule.power=1"}), Keys{"train.lr_schedule.power"});
}

TEST(KeysThatBlockResume, ATableIsNamedByItsName) {
  EXPECT_EQ(blocked_by({"model.tables.C1.rows=99"}), Keys{"model.tables.C1.rows"});
  EXPECT_EQ(blocked_by({"model.tables.t.count=4"}), Keys{"model.tables.t.count"});
}

}  // namespace
}  // namespace dlrm
