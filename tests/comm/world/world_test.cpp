#include "dlrm/comm/world.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "dlrm/comm/preflight.h"

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

TEST(World, TheFileThatItsEnvironmentNamesAppearsOnceRanksHaveMet) {
  const std::string path = "/tmp/dlrm_start_" + std::to_string(::getpid());
  ::unlink(path.c_str());
  { World world(nullptr, nullptr); }
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
  ::setenv("DLRM_START_FILE", path.c_str(), 1);
  { World world(nullptr, nullptr); }
  ::unsetenv("DLRM_START_FILE");
  EXPECT_EQ(::access(path.c_str(), F_OK), 0);
  ::unlink(path.c_str());
}

TEST(World, TheLibraryIsNamedWithoutItsBuild) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string name = mpi_version(), all(text, static_cast<size_t>(length));
  EXPECT_FALSE(name.empty());
  EXPECT_EQ(name.find_first_of(",\n"), std::string::npos);
  EXPECT_EQ(all.rfind(name, 0), 0u);
  ASSERT_LT(name.size(), all.size());
  EXPECT_TRUE(all[name.size()] == ',' || all[name.size()] == '\n');
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
