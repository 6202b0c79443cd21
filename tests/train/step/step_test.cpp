// The environment of a step: waits, recordings, timing.
#include <map>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/trainer.h"

#include "train/small_run.h"
#include "train/step/batch_queue.h"
#include "train/step/stage_clock.h"
#include "train/step/step_graphs.h"
#include "train/test_rank.h"

namespace dlrm {
namespace {

RunConfig on_this_device() {
  RunConfig c = odd_model();
  if (cuda_device_count() > 0) c.device = DeviceKind::kCuda;
  return c;
}

TEST(Model, WaitingForTheLossPollsExchangesThatOtherRanksWaitFor) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "a CPU has the loss when its step returns";
  run_on_threads(2, [&](Communicator& comm) {
    const RunConfig c = on_this_device();
    TestRank rank(comm, c);
    Model model(rank.context, *rank.ops, c);
    Array<char> data(rank.context.device, 64, "test");
    for (int i = 0; i < 200; ++i) rank.ops->fill_zero(data.data(), 64);
    model.mark_loss();
    int moved = 0;
    model.loss_sum([&] { ++moved; });
    EXPECT_GT(moved, 0);
  });
}

TEST(BatchQueue, HoldsEveryValueOfABatchWhateverItsSizeAndThreads) {
  const auto comm = make_self_comm();
  const RunConfig c = on_this_device();
  TestRank rank(*comm, c);
  for (const int threads : {1, 3, 8}) {
    BatchQueue queue(rank.context, threads);
    for (const size_t samples : {1, 7, 70001}) {
      Batch batch;
      batch.local = {0, static_cast<int64_t>(samples)};
      batch.dense.resize(3 * samples);
      batch.labels.resize(2 * samples);
      batch.weights.resize(samples);
      float next = 0;
      for (std::vector<float>* values : {&batch.dense, &batch.labels, &batch.weights}) {
        for (float& value : *values) value = ++next;
      }
      queue.push(batch);
      const PendingBatch& held = queue.front();
      HostArray<float> dense(rank.context.device, batch.dense.size(), "test");
      rank.context.device.copy(dense.data(), held.dense.data(), 4 * batch.dense.size(),
                               rank.context.stream);
      rank.context.stream.synchronize();
      EXPECT_TRUE(std::ranges::equal(View<float>(dense.data(), dense.size()), batch.dense));
      EXPECT_TRUE(std::ranges::equal(held.host_targets.labels, batch.labels));
      EXPECT_TRUE(std::ranges::equal(held.host_targets.weights, batch.weights));
      queue.pop();
    }
  }
}

TEST(BatchQueue, ABufferIsFilledAgainOnlyAfterTheWorkThatReadsIt) {
  const auto comm = make_self_comm();
  const RunConfig c = on_this_device();
  TestRank rank(*comm, c);
  Device& device = rank.context.device;
  BatchQueue queue(rank.context, 1);
  HostArray<float> shown(device, 1, "test");
  const auto push = [&](float value) {
    Batch batch;
    batch.dense = {value};
    batch.labels = {0};
    queue.push(batch);
  };
  for (int i = 0; i < 8; ++i) {
    push(static_cast<float>(i));
    device.copy(shown.data(), queue.front().dense.data(), sizeof(float), rank.context.stream);
    queue.pop();
    push(-1);
    queue.pop();
    push(-2);  // waits until the batch before is on the device, in the first one's place
    queue.pop();
    rank.context.stream.synchronize();
    EXPECT_EQ(shown[0], static_cast<float>(i));
  }
}

TEST(StepGraphs, AFailedCaptureReportsItsCauseAndLeavesTheStreamUsable) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "a CPU records no graphs";
  const auto comm = make_self_comm();
  const RunConfig c = on_this_device();
  TestRank rank(*comm, c);
  StepGraphs graphs(rank.context, 4);
  StepGraphs::Recording recording;
  recording.runs = 1;
  HostArray<int64_t> shown(rank.context.device, 1, "test");
  Array<int64_t> value(rank.context.device, 1, "test");
  shown[0] = 5;
  EXPECT_THAT(error_of([&] {
                graphs.run(recording, StepHalf::kForward, [&] {
                  rank.context.stream.synchronize();  // invalidates the capture
                });
              }),
              ::testing::HasSubstr("cudaStreamSynchronize"));
  EXPECT_FALSE(rank.context.stream.capturing());
  rank.context.device.copy(value.data(), shown.data(), 8, rank.context.stream);
  rank.context.stream.synchronize();
}

TEST(GraphStep, RecordingIsGivenUpAndReportedOnceIfNoStepRecurs) {
  RunConfig c = on_this_device();
  c.train.global_batch_size = 64;
  const auto of_another_size = [](const RunConfig& config, int64_t t, int rank, int world) {
    RunConfig smaller = config;
    smaller.train.global_batch_size =
        5 + std::min<int64_t>(t, 59);  // the last ones recur, too late
    return odd_batch(smaller, 0, rank, world);
  };
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(train_on_batches(c, 1, 120, of_another_size, false, true).launched, 0);
  const std::string said = ::testing::internal::GetCapturedStderr();
  const std::string words = "none of the first 54 steps was launched as a graph";
  const size_t first = said.find(words);
  EXPECT_EQ(first != std::string::npos, cuda_device_count() > 0) << said;
  if (first == std::string::npos) return;
  EXPECT_EQ(said.find(words, first + 1), std::string::npos) << said;
}

TEST(Trainer, DroppedIdsAreThoseOfTheBatchThatWasTrained) {
  const auto comm = make_self_comm();
  RunConfig c = odd_model();
  TestRank rank(*comm, c);
  Trainer trainer(rank.context, *rank.ops, c, make_plan(c, 1), true);
  for (const int64_t dropped : {3, 5}) {
    Batch batch = odd_batch(c, 0, 0, 1);
    batch.dropped = dropped;
    trainer.route(batch);
  }
  EXPECT_EQ(trainer.step(0, false).dropped, 3);
  EXPECT_EQ(trainer.step(1, false).dropped, 5);
}

TEST(Trainer, AStopThatOneRankRequestsReachesAll) {
  run_on_threads(2, [&](Communicator& comm) {
    const RunConfig c = odd_model();
    TestRank rank(comm, c);
    Trainer trainer(rank.context, *rank.ops, c, make_plan(c, 2), true);
    for (int step = 0; step < 3; ++step) {
      trainer.route(odd_batch(c, step, comm.rank(), 2));
      EXPECT_EQ(trainer.step(step, step == 1 && comm.rank() == 1).stop, step == 1);
    }
  });
}

TEST(Trainer, ARankThatHasNoSamplesAfterItHadSomeAddsNoLoss) {
  const auto losses = [&](int ranks) {
    std::vector<double> all;
    run_on_threads(ranks, [&](Communicator& comm) {
      const RunConfig c = on_this_device();
      TestRank rank(comm, c);
      Trainer trainer(rank.context, *rank.ops, c, make_plan(c, ranks), true);
      RunConfig of_one = c;
      of_one.train.global_batch_size = 1;
      trainer.route(odd_batch(c, 0, comm.rank(), ranks));
      const double full = trainer.step(0, false).loss;
      trainer.route(odd_batch(of_one, 1, comm.rank(), ranks));
      const double one = trainer.step(1, false).loss;
      if (comm.rank() == 0) all = {full, one};
    });
    return all;
  };
  const std::vector<double> alone = losses(1), three = losses(3);
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(three[i], alone[i], 1e-5);
}

TEST(StageClock, AStageLastsAsLongAsTheDeviceTakes) {
  const auto comm = make_self_comm();
  const RunConfig c = on_this_device();
  TestRank rank(*comm, c, true);
  Context& context = rank.context;
  if (!context.device.asynchronous()) GTEST_SKIP() << "the host times the stages of a CPU";
  StageClock clock(context);
  std::vector<std::unique_ptr<Event>> events;
  const auto record = [&] {
    events.push_back(context.device.make_timed_event());
    context.stream.record(*events.back());
  };
  const Array<char> data(context.device, 64, "test");
  const auto work = [&] {
    for (int i = 0; i < 50; ++i) rank.ops->fill_zero(data.data(), 64);
  };
  record();
  clock.begin("stage");
  record();
  work();
  record();
  clock.end();
  record();
  work();
  clock.begin("next");
  clock.end();
  clock.finish();
  context.stream.synchronize();
  const std::vector<Trace::Event>& stages = rank.trace.events();
  ASSERT_EQ(stages.size(), 2u);
  const auto nanoseconds = [&](size_t from, size_t to) {
    return 1e6 * events[to]->milliseconds_since(*events[from]);
  };
  const auto time = static_cast<double>(stages[0].end_ns - stages[0].begin_ns);
  EXPECT_GE(time, 0.999 * nanoseconds(1, 2) - 2);
  EXPECT_LE(time, 1.001 * nanoseconds(0, 3) + 2);
  EXPECT_GT(time, 0);
  // The time between two stages belongs to none.
  EXPECT_GT(stages[1].begin_ns, stages[0].end_ns);
}

TEST(StageClock, EveryStageIsTimedInOrder) {
  const auto comm = make_self_comm();
  const RunConfig c = on_this_device();
  TestRank rank(*comm, c, true);
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
  for (const char* stage :
       {"lookup", "bottom", "return", "interact", "top", "loss", "backward", "allreduce"}) {
    EXPECT_EQ(counts[stage], kSteps) << stage;
  }
  // A device updates rows before the sums of dense gradients, and dense layers after them.
  EXPECT_EQ(counts["update"], rank.context.device.asynchronous() ? 2 * kSteps : kSteps);
}

}  // namespace
}  // namespace dlrm
