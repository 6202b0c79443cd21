#include "dlrm/comm/world.h"

#include <gtest/gtest.h>

#include "comm/mpi/mpi_c.h"

namespace dlrm {
namespace {

TEST(World, APlainProcessIsOneRankWithoutMpi) {
  World world(nullptr, nullptr);
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.local_rank(), 0);
  EXPECT_EQ(world.local_size(), 1);
  int started = -1;
  MPI_Initialized(&started);
  EXPECT_EQ(started, 0);
}

TEST(World, AWorldMayFinishTwiceAndOutliveTheWatchedTrace) {
  World world(nullptr, nullptr);
  {
    const Trace trace;
    world.start_watchdog(60, trace);
  }
  world.comm().barrier();
  world.finish();
  world.finish();
}

TEST(WorldDeath, TheCodeIsReturnedAndTheTextPrintedOnce) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(World(nullptr, nullptr).end_all(ExitCode::kUsage, "no such file"),
              testing::ExitedWithCode(2), "^error: no such file\n$");
  EXPECT_EXIT(World(nullptr, nullptr).end_all(ExitCode::kStopped, ""), testing::ExitedWithCode(130),
              "^$");
}

}  // namespace
}  // namespace dlrm
