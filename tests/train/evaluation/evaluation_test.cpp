#include "dlrm/train/evaluation.h"

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"

#include "train/small_run.h"
#include "train/test_rank.h"

namespace dlrm {
namespace {

TEST(Evaluation, TakesEverySampleOnce) {
  RunConfig c = odd_model();
  for (const int64_t samples : {44, 50}) {
    c.data.synthetic.samples = samples;
    for (const auto& [ranks, depth] : {std::pair{1, 0}, {1, 1}, {3, 0}, {3, 1}}) {
      c.routing.depth = depth;
      run_on_threads(ranks, [&](Communicator& comm) {
        TestRank rank(comm, c);
        Trainer trainer(rank.context, *rank.ops, c, make_plan(c, comm.size()), true);
        const auto source = make_batch_source(c, Split::kTrain, comm.rank(), comm.size());
        const auto result = evaluate(rank.context, trainer, *source, c, StopSignal());
        ASSERT_TRUE(result.has_value());
        EXPECT_EQ(result->samples, samples) << comm.size() << " ranks";
      });
    }
  }
}

TEST(Evaluation, GivesEachBatchsOwnPredictionsAndNotesItsIds) {
  RunConfig c = odd_model();
  c.data.synthetic.samples = 50;
  const auto comm = make_self_comm();
  const auto source = make_batch_source(c, Split::kTrain, 0, 1);
  const StopSignal stop;
  std::vector<float> first;
  for (const int depth : {0, 2}) {
    c.routing.depth = depth;
    TestRank rank(*comm, c);
    Trainer trainer(rank.context, *rank.ops, c, make_plan(c, 1), true);
    std::vector<int64_t> sizes;
    std::vector<float> p;
    TargetList targets;
    const TakePredictions take = [&](int64_t size, View<const float> probabilities,
                                     View<const float> labels) {
      Batch batch;
      source->load(std::ssize(sizes), batch);
      EXPECT_EQ(std::vector<float>(labels.begin(), labels.end()), batch.labels);
      sizes.push_back(size);
      p.insert(p.end(), probabilities.begin(), probabilities.end());
      targets.append({labels, {}});
    };
    EvaluationSlices slices(c.model, "left");
    const auto result = evaluate(rank.context, trainer, *source, c, stop, {take, &slices});
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(sizes, (std::vector<int64_t>{22, 22, 6}));
    const EvalResult expected = evaluate_metrics(*comm, p, targets.view());
    EXPECT_EQ(result->auc, expected.auc);
    EXPECT_EQ(result->log_loss, expected.log_loss);
    EXPECT_EQ(result->calibration, expected.calibration);
    int64_t in_slices = slices.result().left_out;
    EXPECT_EQ(slices.result().feature, "left");
    for (const EvalSlice& slice : slices.result().slices) in_slices += slice.result.samples;
    EXPECT_GE(in_slices, EvaluationSlices::kMost);
    EXPECT_LE(in_slices, 50);
    if (first.empty()) first = p;
    EXPECT_EQ(p, first);
  }
}

}  // namespace
}  // namespace dlrm
