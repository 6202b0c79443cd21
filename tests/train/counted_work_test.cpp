// What training sends, fetches, allocates and queues, counted and compared with a file. The results
// of a run do not depend on these numbers, so no other test tells if one grows. Whoever changes one
// on purpose writes the file anew with DLRM_UPDATE_COUNTS=1.
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/trainer.h"

#include "pinned_text.h"
#include "small_run.h"
#include "test_rank.h"

#if defined(DLRM_SIMT)
#include "simt/simt.h"
#endif

namespace dlrm {
namespace {

/// The lines of one rank after training on odd_batch().
std::string counted(const RunConfig& config, Communicator& comm, int steps, bool recorded) {
  TestRank rank(comm, config);
  Trainer trainer(rank.context, *rank.ops, config, make_plan(config, comm.size()), true);
  trainer.use_graphs(recorded);
  int routed = 0;
  for (int step = 0; step < steps; ++step) {
    for (; routed <= step + config.batches_ahead() && routed < steps; ++routed) {
      trainer.route(odd_batch(config, routed, comm.rank(), comm.size()));
    }
    trainer.step(step, false);
  }
  const ShardedEmbeddings::Traffic sent = trainer.traffic();
  std::string text =
      fmt::format("  rank {}: ids {}, vectors {}, gradients {}, copies {}\n", comm.rank(), sent.ids,
                  sent.pooled, sent.gradients, sent.replicated);
  // Whether a row that left is read again or is still on its way depends on the load, so only
  // misses are counted.
  if (const auto cache = trainer.embeddings().cache_counters()) {
    text += fmt::format("    cache: {} ids, {} rows, {} missed\n", cache->accesses, cache->rows,
                        cache->misses);
  }
  // On a CPU, scratch memory depends on its vector instructions.
  if (rank.context.device.runs_cuda()) {
    const Device& device = rank.context.device;
    text += fmt::format("    device: {} bytes, {} freed, {} steps replayed\n",
                        device.bytes_in_use(), device.frees(), trainer.steps_replayed());
  }
  return text;
}

class CountedWork : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("NCCL_HOSTID", "of this rank", 1);  // ranks that share a GPU need one each
  }

  void count(const std::string& name, RunConfig config, int ranks, bool recorded = false) {
    const int steps = config.caches_tables() ? 40 : 9;  // caches need some until rows leave them
    std::vector<std::string> parts(static_cast<size_t>(ranks));
#if defined(DLRM_SIMT)
    const simt::Counters before = simt::counters();
#endif
    run_on_threads(ranks, [&](Communicator& comm) {
      parts[static_cast<size_t>(comm.rank())] = counted(config, comm, steps, recorded);
    });
    text_ += name + "\n";
    for (const std::string& part : parts) text_ += part;
#if defined(DLRM_SIMT)
    if (config.device != DeviceKind::kCuda) return;
    const simt::Counters after = simt::counters();
    text_ += fmt::format("  queued: {} kernels, {} library calls, {} copies, {} fills\n",
                         after.kernels - before.kernels, after.library_calls - before.library_calls,
                         after.copies - before.copies, after.fills - before.fills);
#endif
  }

  void expect_those_of(const std::string& name) const {
    expect_text_of_file(text_, std::string(DLRM_SOURCE) + "/tests/train/" + name);
  }

 private:
  std::string text_;
};

constexpr std::pair<Strategy, const char*> kStrategies[] = {
    {Strategy::kTable, "table"},   {Strategy::kRow, "row"},
    {Strategy::kColumn, "column"}, {Strategy::kGrid, "grid"},
    {Strategy::kAuto, "auto"},     {Strategy::kDataParallel, "data_parallel"}};

TEST_F(CountedWork, OfExchanges) {
  for (const auto& [strategy, name] : kStrategies) {
    for (const int ranks : {1, 2, 3}) {
      count(fmt::format("{} on {}", name, ranks), adagrad_model(strategy), ranks);
    }
    RunConfig config = adagrad_model(strategy);
    config.train.wire = {DType::kFloat16, DType::kFloat32, DType::kBFloat16};
    count(fmt::format("{}, forward in fp16", name), config, 2);
    config.train.wire = {DType::kFloat32, DType::kBFloat16, DType::kFloat32};
    count(fmt::format("{}, backward in bf16", name), config, 2);
    config.train.wire = {};
    config.routing = {RoutingMode::kFixed, 2};
    count(fmt::format("{}, fixed routing", name), config, 3);
  }
  expect_those_of("counted_exchanges.txt");
}

TEST_F(CountedWork, OfCaches) {
  for (const char* policy : {"lookahead", "lru16"}) {
    for (const char* fast : {"1%", "2%", "7%"}) {
      for (const int window : {1, 3}) {
        RunConfig config = adagrad_model(Strategy::kRow);
        config.model.tables[2].rows = 30000;
        config.model.tables[3].rows = 40000;
        config.memory.tier = MemoryTier::kCached;
        config.memory.cached = {fast, {}, "", "host", "", policy, window};
        for (const int ranks : {1, 2}) {
          count(fmt::format("{} of {}, window {}, on {}", policy, fast, window, ranks), config,
                ranks);
        }
      }
    }
  }
  expect_those_of("counted_caches.txt");
}

TEST_F(CountedWork, OfAGpu) {
  if (!cuda_is_emulated()) GTEST_SKIP() << "counts are those of the emulator";
  for (const auto& [strategy, name] : kStrategies) {
    for (const int ranks : {1, 2}) {
      for (const bool recorded : {false, true}) {
        count(fmt::format("{} on {}{}", name, ranks, recorded ? ", recorded" : ""),
              adagrad_model(strategy, DeviceKind::kCuda), ranks, recorded);
      }
    }
  }
  RunConfig config = adagrad_model(Strategy::kTable, DeviceKind::kCuda);
  for (const InteractionConfig& interaction : other_interactions()) {
    config.model.interaction = interaction;
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      config.train.precision = precision;
      count(fmt::format("interaction {}, precision {}", interaction.index(),
                        static_cast<int>(precision)),
            config, 2);
    }
  }
  for (const auto& [dense, sparse] : optimizer_pairs()) {
    config = adagrad_model(Strategy::kColumn, DeviceKind::kCuda);
    config.train.dense_optimizer.type = dense;
    config.train.sparse_optimizer.type = sparse;
    count(fmt::format("{} and {}", traits_of(dense).name, traits_of(sparse).name), config, 2);
  }
  config = adagrad_model(Strategy::kRow, DeviceKind::kCuda);
  config.comm = CommKind::kStaged;
  count("staged", config, 2);
  expect_those_of("counted_gpu.txt");
}

}  // namespace
}  // namespace dlrm
