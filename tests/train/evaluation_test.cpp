#include "dlrm/train/evaluation.h"

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"

#include "small_run.h"
#include "test_rank.h"

namespace dlrm {
namespace {

TEST(Evaluation, TakesEverySampleOnce) {
  RunConfig c = odd_model();
  for (const int64_t samples : {44, 50}) {
    c.data.synthetic.samples = samples;
    for (const int ranks : {1, 3}) {
      run_on_threads(ranks, [&](Communicator& comm) {
        TestRank rank(comm, c);
        Trainer trainer(rank.context, *rank.ops, c, make_plan(c, ranks), true);
        const auto source = make_batch_source(c, Split::kTrain, comm.rank(), ranks);
        const StopSignal stop;
        for (const int depth : {0, 1}) {
          const auto result = evaluate(rank.context, trainer, *source, c.data, depth, stop);
          ASSERT_TRUE(result.has_value());
          EXPECT_EQ(result->samples, samples) << ranks << " ranks";
        }
      });
    }
  }
}

}  // namespace
}  // namespace dlrm
