// The environment of a step: waits, recordings, timing.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/execution.h"
#include "dlrm/train/trainer.h"

#include "small_run.h"
#include "train/step_graphs.h"

namespace dlrm {
namespace {

/// A rank with its context on the GPU of this build, if there is one.
struct Rank {
  Rank(Communicator& comm, const RunConfig& config)
      : log(comm.rank()),
        execution(comm, config, machine_share(comm)),
        context(execution.context(trace, log)),
        ops(execution.make_ops(1, false)) {}

  Trace trace{true};
  Log log;
  Execution execution;
  Context context;
  std::unique_ptr<Ops> ops;
};

RunConfig on_this_device() {
  RunConfig c = odd_model();
  if (cuda_device_count() > 0) c.device = DeviceKind::kCuda;
  return c;
}

TEST(Model, WaitingForTheLossPollsExchangesThatOtherRanksWaitFor) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "a CPU has the loss when its step returns";
  run_on_threads(2, [&](Communicator& comm) {
    const RunConfig c = on_this_device();
    Rank rank(comm, c);
    Model model(rank.context, *rank.ops, c);
    Array<char> data(rank.context.device, 64, "test");
    for (int i = 0; i < 200; ++i) rank.ops->fill_zero(data.data(), 64);
    model.loss_is_queued();
    int moved = 0;
    model.loss_sum([&] { ++moved; });
    EXPECT_GT(moved, 0);
  });
}

TEST(StepGraphs, AsManyRecordingsAsRequestedAreKept) {
  const auto comm = make_self_comm();
  const RunConfig c = on_this_device();
  Rank rank(*comm, c);
  StepGraphs graphs(rank.context, 30);
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < 30; ++i) {
      StepGraphs::Key key{i, 7};
      EXPECT_EQ(graphs.find_or_add(key).runs++, round) << i;
    }
  }
}

TEST(StepGraphs, AKeyThatIsNewToOneRankIsNewToAll) {
  run_on_threads(2, [&](Communicator& comm) {
    const RunConfig c = odd_model();
    Rank rank(comm, c);
    StepGraphs graphs(rank.context, 8);
    const auto runs = [&](uint64_t mine) {
      StepGraphs::Key key{mine};
      return graphs.find_or_add(key).runs++;
    };
    const auto other = static_cast<uint64_t>(comm.rank());
    EXPECT_EQ(runs(1), 0);
    EXPECT_EQ(runs(1), 1);
    EXPECT_EQ(runs(1 + other), 0);  // new to rank 1 alone
    EXPECT_EQ(runs(1), 2);
    EXPECT_EQ(runs(1 + other), 1);
  });
}

TEST(StepGraphs, AFailedCaptureReportsItsCauseAndLeavesTheStreamUsable) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "a CPU records no graphs";
  const auto comm = make_self_comm();
  const RunConfig c = on_this_device();
  Rank rank(*comm, c);
  StepGraphs graphs(rank.context, 4);
  StepGraphs::Recording recording;
  recording.runs = 1;
  HostArray<int64_t> shown(rank.context.device, 1, "test");
  Array<int64_t> value(rank.context.device, 1, "test");
  shown[0] = 5;
  try {
    graphs.run(recording, StepHalf::kForward, [&] {
      rank.context.stream.synchronize();  // invalidates the capture
    });
    ADD_FAILURE() << "a spoilt capture was taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cudaStreamSynchronize"), std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(rank.context.stream.capturing());
  rank.context.device.copy(value.data(), shown.data(), 8, rank.context.stream);
  rank.context.stream.synchronize();
}

TEST(GraphStep, RecordingIsGivenUpAndReportedOnceIfNoStepRecurs) {
  const RunConfig c = on_this_device();  // bags of different lengths
  testing::internal::CaptureStderr();
  EXPECT_EQ(train_recorded(c, 1, 120, true).launched, 0);
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string words = "was launched as a graph";
  const size_t first = said.find(words);
  EXPECT_EQ(first != std::string::npos, cuda_device_count() > 0) << said;
  if (first == std::string::npos) return;
  EXPECT_EQ(said.find(words, first + 1), std::string::npos) << said;
}

TEST(Trainer, DroppedIdsAreThoseOfTheBatchThatWasTrained) {
  const auto comm = make_self_comm();
  RunConfig c = odd_model();
  Rank rank(*comm, c);
  Trainer trainer(rank.context, *rank.ops, c, make_plan(c, 1), true);
  for (const int64_t dropped : {3, 5}) {
    Batch batch = odd_batch(c, 0, 0, 1);
    batch.dropped = dropped;
    trainer.route(batch);
  }
  EXPECT_EQ(trainer.step(0, false).dropped, 3);
  EXPECT_EQ(trainer.step(1, false).dropped, 5);
}

TEST(StageClock, EveryStageIsTimedOnceAndInOrder) {
  const auto comm = make_self_comm();
  const RunConfig c = on_this_device();
  Rank rank(*comm, c);
  Trainer trainer(rank.context, *rank.ops, c, make_plan(c, 1), true);
  trainer.time_stages();
  constexpr int kSteps = 3;
  for (int step = 0; step < kSteps; ++step) {
    trainer.route(odd_batch(c, step, 0, 1));
    trainer.step(step, false);
  }
  trainer.finish_stages();
  std::map<std::string, int64_t> counts;
  for (const Trace::Total& total : rank.trace.totals()) {
    counts[total.name] = total.count;
    EXPECT_GE(total.ns, 0) << total.name;
  }
  int64_t last = 0;
  const std::string stages = "lookup bottom return interact top loss backward allreduce update";
  for (const Trace::Event& event : rank.trace.events()) {
    if (stages.find(event.name) == std::string::npos) continue;
    EXPECT_GE(event.begin_ns, last) << event.name;
    EXPECT_GE(event.end_ns, event.begin_ns) << event.name;
    last = event.end_ns;
  }
  for (const char* stage : {"lookup", "bottom", "return", "interact", "top", "loss", "backward",
                            "allreduce", "update"}) {
    EXPECT_EQ(counts[stage], kSteps) << stage;
  }
}

}  // namespace
}  // namespace dlrm
