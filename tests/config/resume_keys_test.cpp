#include <algorithm>

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
        "checkpoint={directory: c, every_steps: 3, at_end: true, keep: 9, keep_best: auc}",
        "data.verify=false", "eval={every_steps: 4, at_end: false, stop_at_auc: 0.5, patience: 3}",
        "routing.mode=fixed", "sharding={strategy: row, tables: {t: column}, plan: p.json}",
        "routing.depth=3",
        "memory={tier: host, tables: {C1: device}, device: 2GiB, cached: {fast: 3%}}", "device=cpu",
        "comm=mpi", "train.threads=2", "train.timeout=10", "data.workers=1", "data.prefetch=1",
        "data.train=moved.h5", "data.test=other.h5"}) {
    EXPECT_EQ(blocked_by({free}), Keys{}) << free;
  }
}

TEST(KeysThatBlockResume, ATableIsNamedByItsName) {
  EXPECT_EQ(blocked_by({"model.tables.C1.rows=99"}), Keys{"model.tables.C1.rows"});
  EXPECT_EQ(blocked_by({"model.tables.t.count=4"}), Keys{"model.tables.t.count"});
}

TEST(KeysThatBlockResume, TheOrderAndTheNumberOfTablesAreNamed) {
  const RunConfig now = small_config();
  RunConfig other = now;
  std::swap(other.model.tables[0], other.model.tables[1]);
  const Keys swapped = keys_that_block_resume(other, now);
  EXPECT_NE(std::find(swapped.begin(), swapped.end(), "model.tables"), swapped.end());
  other = now;
  other.model.tables.push_back(other.model.tables[0]);
  other.model.tables.back().name = other.model.tables.back().group = "new";
  other.model.tables.back().features[0].name = "new";
  const Keys keys{"model.tables",           "model.tables.new.dim",
                  "model.tables.new.dtype", "model.tables.new.hotness",
                  "model.tables.new.name",  "model.tables.new.pooling",
                  "model.tables.new.rows"};
  EXPECT_EQ(keys_that_block_resume(now, other), keys);  // added
  EXPECT_EQ(keys_that_block_resume(other, now), keys);  // removed
}

TEST(KeysThatBlockResume, NamesOfTablesAreToldApart) {
  RunConfig now = small_config({"model.tables.0.name=a", "model.tables.1={name: bc, rows: 9}"});
  RunConfig other = small_config({"model.tables.0.name=ab", "model.tables.1={name: c, rows: 9}"});
  const Keys keys = keys_that_block_resume(now, other);
  EXPECT_EQ(std::count(keys.begin(), keys.end(), "model.tables"), 1);
}

/// Every key of the reference is either one that a resumed run may change, or is named.
TEST(KeysThatBlockResume, OnlyTheKeysThatMayChangeDoNotBlock) {
  const std::vector<std::pair<std::string, std::string>> blocking{
      {"data.shuffle", "false"},
      {"data.source", "replay"},
      {"train.global_batch_size", "2"},
      {"train.wire.dense", "bf16"},
      {"train.lr_schedule.power", "1"},
      {"data.invalid_id", "drop"},
      {"data.synthetic.samples", "5"},
      {"data.synthetic.alpha", "0.5"},
      {"data.synthetic.seed", "5"},
      {"train.seed", "5"},
      {"train.precision", "bf16"},
      {"train.tf32", "false"},
      {"train.pin_algorithms", "true"},
      {"train.wire.forward", "bf16"},
      {"train.wire.backward", "bf16"},
      {"train.dense_optimizer.lr", "5"},
      {"train.sparse_optimizer.eps", "0.5"},
      {"train.sparse_optimizer.initial_accumulator", "0.5"},
      {"train.lr_schedule.warmup_steps", "5"},
      {"train.lr_schedule.decay_start", "5"},
      {"train.lr_schedule.decay_steps", "5"},
      {"train.dense_optimizer.weight_decay", "0.5"},
      {"train.clip_norm", "5"},
      {"model.dropout.top", "0.5"},
      {"model.layer_norm.bottom", "true"},
      {"model.activation", "tanh"},
      {"model.bottom_mlp", "[8, 16]"},
      {"model.top_mlp", "[1]"}};
  for (const auto& [key, value] : blocking) {
    EXPECT_EQ(blocked_by({key + "=" + value}), Keys{key});
  }
}

}  // namespace
}  // namespace dlrm
