// Batches whose rows do not fit a fast tier: every rank gives the same error, whichever needs most.
#include <gtest/gtest.h>

#include "embedding/training.h"

namespace dlrm::testing {
namespace {

constexpr int kRanks = 3;
constexpr int64_t kSamples = 96, kRows = 100;

struct RefusedCase {
  std::vector<int64_t> rows;    ///< of each rank's table in the large batch
  std::vector<bool> is_cached;  ///< each rank's table
  const char* size;             ///< that would do
};

/// Table t is whole on rank t. 20 of its rows fit.
class RefusedBatches : public ::testing::TestWithParam<const char*> {
 protected:
  RefusedBatches() {
    Tables tables;
    for (const char* name : {"a", "b", "c"}) {
      tables.push_back(table_of(name, kRows, 16, {1}, Pooling::kSum));
    }
    options_ = options_for(tables, OptimizerRule::kSgd);
    options_.max_global_batch = kSamples;
    options_.cached.policy = GetParam();
    options_.cached.fast = "20%";
  }

  /// So many rows of each table.
  static void route(ShardedEmbeddings& embeddings, const Communicator& comm,
                    const std::vector<int64_t>& rows) {
    const Range local = part_of(kSamples, comm.rank(), comm.size());
    std::vector<int64_t> ids, offsets{0};
    for (const int64_t of_table : rows) {
      for (int64_t i = local.begin; i < local.end; ++i) {
        ids.push_back(i % of_table);
        offsets.push_back(std::ssize(ids));
      }
    }
    embeddings.route({local, kSamples, ids, offsets});
  }

  /// Trains `small` batches, and expects that the large one after them is refused. Batches are
  /// routed `depth` steps ahead.
  void refuse(const RefusedCase& c, int small, int depth, ExitCode code) {
    options_.routing.depth = depth;
    Plan plan;
    plan.world = kRanks;
    for (int t = 0; t < kRanks; ++t) {
      add_grid(plan, options_.tables, t, 1, 1, t);
      if (c.is_cached[static_cast<size_t>(t)]) plan.shards.back().tier = MemoryTier::kCached;
    }
    const auto refuse_on = [&](Communicator& comm) {
      Rank rank(comm);
      ShardedEmbeddings embeddings(rank.context, *rank.ops, options_, plan);
      int routed = 0;
      const auto fill = [&] {
        for (; routed <= small && embeddings.in_flight() <= depth; ++routed) {
          route(embeddings, comm, routed < small ? std::vector<int64_t>{1, 2, 3} : c.rows);
        }
      };
      fill();
      const bool in_first_window = small <= depth;
      for (int t = 0; t < small && !in_first_window; ++t, fill()) {
        train(embeddings, rank.context, t, kSamples, 0.1);
      }
      await_refusal(embeddings, comm, [&](const RowsDoNotFit& refused) {
        EXPECT_EQ(refused.code(), code);
        EXPECT_EQ(std::string(refused.what()),
                  std::string("memory.cached.fast: too small for the rows of a batch; ") + c.size +
                      " would do")
            << "rank " << comm.rank();
      });
    };
    EXPECT_THROW(run_on_threads(kRanks, refuse_on), RowsDoNotFit);
  }

  EmbeddingOptions options_;
};

TEST_P(RefusedBatches, AreRefusedByAllRanks) {
  const std::vector<bool> all(kRanks, true);
  for (const RefusedCase& c :
       {RefusedCase{{96, 64, 1}, all, "6KiB"}, RefusedCase{{1, 96, 64}, all, "6KiB"},
        RefusedCase{{64, 48, 96}, all, "6KiB"},
        RefusedCase{{64, 40, 96}, {true, true, false}, "4KiB"},
        RefusedCase{{96, 64, 40}, {false, false, true}, "3KiB"}}) {
    SCOPED_TRACE(::testing::PrintToString(c.rows) + ::testing::PrintToString(c.is_cached));
    refuse(c, 0, 0, ExitCode::kUsage);
    refuse(c, 2, 2, ExitCode::kUsage);
    refuse(c, 1, 0, ExitCode::kFailure);
    refuse(c, 3, 2, ExitCode::kFailure);
  }
}

INSTANTIATE_TEST_SUITE_P(Embedding, RefusedBatches,
                         ::testing::Values("lookahead", "lru16", "static"));

}  // namespace
}  // namespace dlrm::testing
