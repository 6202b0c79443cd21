// What summary.json has of a run.
#include "dlrm/comm/thread_comm.h"

#include "train/one_run.h"
#include "train/reports/summarise.h"

namespace dlrm {
namespace {

RunProgress some_progress() {
  RunProgress progress;
  progress.step = 9;
  progress.samples = 500;
  progress.samples_here = 60;
  progress.loss = 0.25;
  progress.wait_seconds = 0.5;
  progress.loop_seconds = 4;
  progress.cpu_utilization = 0.75;
  progress.sent = {600, 900};
  progress.dropped_ids = 13;
  progress.recorded_steps = 2;
  return progress;
}

TEST_F(OneRun, TheSummaryHasTheFiguresOfItsProgress) {
  RunProgress trained;
  run_->train(trained, 3, stop_);
  trace_.add("checkpoint", 0, 1'000'000);
  evaluations_.add({8, EvalResult{100, 0.75, 0.5, 0.8, 1.1}});
  evaluations_.add({9, EvalResult{100, 0.5, 0.25, 0.8, 1.1}});
  RunSummary s = summarise(*context_, config_, plan_, some_progress(), evaluations_, *run_);
  EXPECT_EQ(s.samples_per_second, 15);
  EXPECT_EQ(s.data_wait_share, 0.125);
  EXPECT_EQ(s.steps, 9);
  EXPECT_EQ(s.samples, 500);
  EXPECT_EQ(s.train_loss, 0.25);
  EXPECT_EQ(s.eval->step, 9);
  EXPECT_EQ(s.best_eval->step, 8);
  EXPECT_EQ(s.world_size, 1);
  EXPECT_EQ(s.device, context_->device.describe());
  EXPECT_GT(s.wall_seconds, 0);
  EXPECT_LE(s.wall_seconds, static_cast<double>(trace_.now_ns()) * 1e-9);
  EXPECT_EQ(s.step_ms_mean, run_->times().mean_ms());
  EXPECT_EQ(s.step_ms_p50, run_->times().percentile_ms(0.5));
  EXPECT_EQ(s.step_ms_p99, run_->times().percentile_ms(0.99));
  EXPECT_EQ(s.stages_ms.count("checkpoint"), 0u);
  size_t stages = 0;
  for (const Trace::Total& total : trace_.totals()) {
    if (total.name == std::string("checkpoint")) continue;
    EXPECT_DOUBLE_EQ(s.stages_ms.at(total.name), static_cast<double>(total.ns) * 1e-6 / 3);
    ++stages;
  }
  EXPECT_EQ(s.stages_ms.size(), stages);
  EXPECT_EQ(s.stages_max_ms, s.stages_ms);  // of the only rank
  EXPECT_EQ(s.cpu_utilization, 0.75);
  EXPECT_EQ(s.numbers.at("dropped_ids"), 13);
  EXPECT_EQ(s.numbers.count("failed_checkpoints"), 0u);
  EXPECT_EQ(s.numbers.count("recorded_steps"), context_->device.can_capture() ? 1u : 0u);
  EXPECT_EQ(s.numbers.count("gpu_busy_share"), 0u);
  EXPECT_EQ(s.memory.count("gpu_used_bytes"), 0u);
  EXPECT_EQ(s.labels.at("comm"), context_->device_comm().describe());
}

TEST_F(OneRun, TheSummaryHasThePlannedAndTheUsedMemory) {
  RunProgress progress = some_progress();
  progress.gpu = Utilisation{0.5, 0.25, 700, 1000};
  RunConfig config = config_;
  config.train.sparse_optimizer.type = OptimizerRule::kAdagrad;
  Plan plan = plan_;
  plan.shards.front().tier = MemoryTier::kHost;
  const RunSummary s = summarise(*context_, config, plan, progress, evaluations_, *run_);
  const RankMemory needs = rank_memory(config, plan)[0];
  for (const double bytes :
       {needs.tables, needs.optimizer_state, needs.host_tables, needs.host_optimizer_state}) {
    EXPECT_GT(bytes, 0);
  }
  EXPECT_EQ(s.memory.at("planned_bytes"), needs.total());
  EXPECT_EQ(s.memory.at("library_bytes"), needs.libraries);
  EXPECT_EQ(s.memory.at("table_bytes"), needs.tables + needs.optimizer_state);
  EXPECT_EQ(s.memory.at("host_table_bytes"), needs.host_tables);
  EXPECT_EQ(s.memory.at("host_optimizer_state_bytes"), needs.host_optimizer_state);
  EXPECT_EQ(s.memory.at("device_peak_bytes"), static_cast<double>(context_->device.peak_bytes()));
  EXPECT_EQ(s.memory.at("shared_peak_bytes"),
            static_cast<double>(context_->comm.shared_memory_peak()));
  EXPECT_GT(s.memory.at("process_peak_bytes"), 0x1p20);
  EXPECT_EQ(s.memory.at("gpu_used_bytes"), 700);
  EXPECT_EQ(s.numbers.at("gpu_busy_share"), 0.5);
  EXPECT_EQ(s.numbers.at("gpu_memory_busy_share"), 0.25);
  // No step was timed.
  EXPECT_TRUE(s.stages_ms.empty());
  EXPECT_EQ(s.plan.at("exchange_bytes"), 0);
}

TEST_F(OneRun, TheSummaryHasTheFiguresOfCaches) {
  RunProgress progress = some_progress();
  progress.cache = CacheCounters{10, 20, 5, 40, 50, 60, 70, 0.5, 1.5, 2.5, 3.5};
  for (Shard& shard : plan_.shards) shard.tier = MemoryTier::kCached;
  config_.memory.cached.backing = "host";
  const RunSummary s = summarise(*context_, config_, plan_, progress, evaluations_, *run_);
  EXPECT_EQ(s.cache, (std::map<std::string, double>{{"accesses", 10},
                                                    {"rows", 20},
                                                    {"misses", 5},
                                                    {"middle_reads", 40},
                                                    {"reads", 50},
                                                    {"hit_rate", 0.75},
                                                    {"fetched_bytes", 60},
                                                    {"written_bytes", 70},
                                                    {"place_seconds", 0.5},
                                                    {"fetch_seconds", 1.5},
                                                    {"write_seconds", 2.5},
                                                    {"exposed_seconds", 3.5}}));
  const RankMemory needs = rank_memory(config_, plan_)[0];
  for (const auto& [name, bytes] :
       {std::pair{"cache_bytes", needs.cache}, {"host_cache_bytes", needs.host_cache}}) {
    EXPECT_EQ(s.memory.count(name), bytes > 0 ? 1u : 0u) << name;
    if (bytes > 0) EXPECT_EQ(s.memory.at(name), bytes) << name;
  }
  EXPECT_GT(needs.cache + needs.host_cache, 0);
  const RunSummary without =
      summarise(*context_, config_, make_plan(config_, 1), some_progress(), evaluations_, *run_);
  EXPECT_TRUE(without.cache.empty());
  EXPECT_EQ(without.memory.count("cache_bytes") + without.memory.count("host_cache_bytes"), 0u);
}

TEST_F(OneRun, TheSummaryHasTheLoadsOfItsPlan) {
  RunProgress trained;
  run_->train(trained, 3, stop_);
  shard_by(config_, Strategy::kTable);
  const Plan plan = make_plan(config_, 4);
  const RunSummary s = summarise(*context_, config_, plan, some_progress(), evaluations_, *run_);
  EXPECT_EQ(s.plan.at("shards"), static_cast<double>(plan.shards.size()));
  EXPECT_EQ(s.plan.at("data_parallel_tables"), static_cast<double>(plan.data_parallel.size()));
  double bytes = 0, most = 0, lookups = 0;
  for (const RankLoad& load : rank_loads(config_, plan)) {
    bytes += load.sent_bytes();
    most = std::max(most, load.lookups);
    lookups += load.lookups;
  }
  EXPECT_EQ(s.plan.at("expected_exchange_bytes"), bytes);
  EXPECT_EQ(s.plan.at("exchange_bytes"), 200);  // 600 in three steps
  EXPECT_EQ(s.plan.at("between_nodes_bytes"), 300);
  EXPECT_DOUBLE_EQ(s.plan.at("lookup_imbalance"), most / (lookups / 4));
  EXPECT_GT(s.plan.at("lookup_imbalance"), 1);
}

TEST(Summary, BytesOfEachKindAreAddedAndSubtractedApart) {
  SentBytes sent{5, 70};
  sent += SentBytes{100, 2000};
  EXPECT_EQ(sent.by_embeddings, 105);
  EXPECT_EQ(sent.between_nodes, 2070);
  const SentBytes rest = sent - SentBytes{1, 20};
  EXPECT_EQ(rest.by_embeddings, 104);
  EXPECT_EQ(rest.between_nodes, 2050);
}

TEST(Summary, StagesHaveTheMostOfAnyRank) {
  run_on_threads(3, [](Communicator& comm) {
    std::map<std::string, double> own = {{"both ways", comm.rank() + 1.5},
                                         {"back", 7.0 - comm.rank()}};
    if (comm.rank() == 1) own["alone"] = 0.25;
    if (comm.rank() == 2) own.erase("back");
    const std::map<std::string, double> most = {{"alone", 0.25}, {"back", 7}, {"both ways", 3.5}};
    EXPECT_EQ(most_of_ranks(comm, own), most);
  });
}

TEST(Summary, CachesOfAllRanksAreAddedUp) {
  run_on_threads(3, [](Communicator& comm) {
    const int64_t n = comm.rank() + 1;
    const auto seconds = static_cast<double>(n);
    CacheCounters sum{1 * n, 2 * n,       3 * n,       4 * n,        5 * n,       6 * n,
                      7 * n, 8 * seconds, 9 * seconds, 10 * seconds, 11 * seconds};
    add_up(comm, sum);
    EXPECT_EQ(sum.accesses, 6);
    EXPECT_EQ(sum.rows, 12);
    EXPECT_EQ(sum.misses, 18);
    EXPECT_EQ(sum.middle_reads, 24);
    EXPECT_EQ(sum.reads, 30);
    EXPECT_EQ(sum.fetched_bytes, 36);
    EXPECT_EQ(sum.written_bytes, 42);
    EXPECT_EQ(sum.place_seconds, 48);
    EXPECT_EQ(sum.fetch_seconds, 54);
    EXPECT_EQ(sum.write_seconds, 60);
    EXPECT_EQ(sum.exposed_seconds, 66);
  });
}

}  // namespace
}  // namespace dlrm
