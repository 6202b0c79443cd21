#include <atomic>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"

#include "suite.h"

namespace dlrm {
namespace {

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, AlltoallvMovesEveryBlockToItsRank) {
  run_on_threads(GetParam(), test::check_alltoallv);
}
TEST_P(Collectives, AllgathervCopiesEveryPartToEveryRank) {
  run_on_threads(GetParam(), test::check_allgatherv);
}
TEST_P(Collectives, BroadcastCopiesTheRootsData) {
  run_on_threads(GetParam(), test::check_broadcast);
}
TEST_P(Collectives, ReductionsAddInRankOrder) {
  run_on_threads(GetParam(), test::check_reductions);
}
TEST_P(Collectives, ABf16WireRoundsValuesAndSumOnce) {
  run_on_threads(GetParam(), test::check_bf16_allreduce);
}
TEST_P(Collectives, CallsInFlightMayBeAwaitedInAnyOrder) {
  run_on_threads(GetParam(), test::check_in_flight);
}
TEST_P(Collectives, DuplicatesKeepTheirCallsApart) {
  run_on_threads(GetParam(), test::check_duplicates);
}
TEST_P(Collectives, ARankMayExchangeBlocksWithOneOtherAlone) {
  run_on_threads(GetParam(), test::check_blocks_of_one_peer);
}
TEST_P(Collectives, BuffersMayLieInSharedMemory) {
  run_on_threads(GetParam(), test::check_shared_memory);
}
TEST_P(Collectives, ManyCallsMayBeInFlight) {
  run_on_threads(GetParam(), test::check_many_in_flight);
}
TEST_P(Collectives, ARankMayRunAheadOfOthers) {
  run_on_threads(GetParam(), test::check_rank_running_ahead);
}
TEST_P(Collectives, RandomPollsAndWaitsGiveTheSameSums) {
  run_on_threads(GetParam(), test::check_random_interleavings);
}
TEST_P(Collectives, NoRankLeavesABarrierBeforeAllHaveEntered) {
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

INSTANTIATE_TEST_SUITE_P(Threads, Collectives, testing::Values(1, 2, 3, 4, 7));

TEST(SelfComm, AllCollectivesWork) { test::check_everything(*make_self_comm()); }

TEST(SelfComm, SumsHaveTheBitsOfAWorldOfOneThread) {
  const auto self = test::awkward_sums(*make_self_comm(), 5000, DType::kBFloat16);
  run_on_threads(1, [&](Communicator& comm) {
    EXPECT_EQ(test::awkward_sums(comm, 5000, DType::kBFloat16), self);
  });
}

TEST(Duplicate, AnotherThreadMayUseADuplicate) {
  run_on_threads(3, [](Communicator& comm) {
    const std::unique_ptr<Communicator> other = comm.duplicate();
    std::thread worker([&] { test::check_random_interleavings(*other); });
    test::check_random_interleavings(comm);
    worker.join();
  });
}

}  // namespace
}  // namespace dlrm
