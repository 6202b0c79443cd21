#include <atomic>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"

#include "suite.h"

namespace dlrm {
namespace {

class EveryWorldSize : public testing::TestWithParam<int> {};

TEST_P(EveryWorldSize, AlltoallvMovesEveryBlockToItsRank) {
  run_on_threads(GetParam(), test::check_alltoallv);
}
TEST_P(EveryWorldSize, AllgathervBringsEveryRanksPartEverywhere) {
  run_on_threads(GetParam(), test::check_allgatherv);
}
TEST_P(EveryWorldSize, BroadcastBringsTheRootsData) {
  run_on_threads(GetParam(), test::check_broadcast);
}
TEST_P(EveryWorldSize, ReductionsAddInRankOrder) {
  run_on_threads(GetParam(), test::check_reductions);
}
TEST_P(EveryWorldSize, ABf16WireRoundsValuesAndSumOnce) {
  run_on_threads(GetParam(), test::check_bf16_allreduce);
}
TEST_P(EveryWorldSize, CallsInFlightMayBeAwaitedInAnyOrder) {
  run_on_threads(GetParam(), test::check_in_flight);
}
TEST_P(EveryWorldSize, DuplicatesKeepTheirCallsApart) {
  run_on_threads(GetParam(), test::check_duplicates);
}
TEST_P(EveryWorldSize, BuffersMayLieInSharedMemory) {
  run_on_threads(GetParam(), test::check_shared_memory);
}
TEST_P(EveryWorldSize, ManyCallsMayBeInFlight) {
  run_on_threads(GetParam(), test::check_many_in_flight);
}
TEST_P(EveryWorldSize, ARankMayRunAheadOfOthers) {
  run_on_threads(GetParam(), test::check_a_rank_that_runs_ahead);
}
TEST_P(EveryWorldSize, RandomPollsAndWaitsGiveTheSameSums) {
  run_on_threads(GetParam(), test::check_random_interleavings);
}
TEST_P(EveryWorldSize, NobodyLeavesABarrierBeforeAllHaveEntered) {
  std::atomic<int> entered{0};
  run_on_threads(GetParam(), [&](Communicator& comm) {
    for (int round = 1; round <= 20; ++round) {
      ++entered;
      comm.barrier();
      EXPECT_GE(entered.load(), round * GetParam());
      comm.barrier();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Threads, EveryWorldSize, testing::Values(1, 2, 3, 4, 7));

TEST(SelfComm, PassesTheWholeSuite) { test::check_everything(*make_self_comm()); }

TEST(SelfComm, AgreesBitwiseWithAWorldOfOneThread) {
  const auto self = test::awkward_sums(*make_self_comm(), 5000, DType::kBFloat16);
  run_on_threads(1, [&](Communicator& comm) {
    EXPECT_EQ(test::awkward_sums(comm, 5000, DType::kBFloat16), self);
  });
}

TEST(Duplicate, MayBeUsedByAnotherThread) {
  run_on_threads(3, [](Communicator& comm) {
    const std::unique_ptr<Communicator> other = comm.duplicate();
    std::thread worker([&] { test::check_random_interleavings(*other); });
    test::check_random_interleavings(comm);
    worker.join();
  });
}

}  // namespace
}  // namespace dlrm
