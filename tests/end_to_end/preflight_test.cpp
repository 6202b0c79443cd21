#include <string>

#include <gtest/gtest.h>

#include "program.h"

namespace dlrm {
namespace {

Outcome preflight(const std::string& options, const std::string& environment = "") {
  const TemporaryFolder folder;
  return run_command(
      "DLRM_PREFLIGHT=\"$(command -v dlrm-preflight)\" ASAN_OPTIONS=detect_leaks=0 " + environment +
          " '" + (source_folder() / "launch/preflight.sh").string() + "' " + options,
      folder.path());
}

/// The line of check `name`, with single spaces. Empty if there is none.
std::string line_of(const Outcome& outcome, const std::string& name) {
  for (const char* word : {"ok      ", "failed  "}) {
    const size_t at = outcome.output.find(word + name + " ");
    if (at == std::string::npos) continue;
    return outcome.output.substr(at, outcome.output.find('\n', at) - at);
  }
  return "";
}

void expect_ok(const Outcome& outcome, const std::string& name) {
  EXPECT_EQ(line_of(outcome, name).substr(0, 3), "ok ") << name << "\n" << outcome.output;
}

TEST(Preflight, MpiIsCheckedAndAMissingGpuIsReported) {
  const Outcome outcome = preflight("-np 2");
  EXPECT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
  for (const char* name : {"programs", "ranks", "program", "mpi", "processors", "limits", "clocks",
                           "exchange", "folder", "gpus"}) {
    expect_ok(outcome, name);
  }
  EXPECT_NE(line_of(outcome, "exchange").find("GB/s"), std::string::npos) << outcome.output;
}

TEST(Preflight, NothingIsLeftInTheFolder) {
  const TemporaryFolder folder;
  const Outcome outcome = preflight("-np 2 --folder '" + folder.path().string() + "'");
  EXPECT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
  expect_ok(outcome, "folder");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Preflight, AMissingFolderIsAFailure) {
  const Outcome outcome = preflight("-np 2 --folder /nowhere/at/all");
  EXPECT_EQ(outcome.code, 2) << outcome.output << outcome.errors;
  EXPECT_NE(line_of(outcome, "folder").find("cannot write"), std::string::npos) << outcome.output;
}

TEST(Preflight, RanksThatDoNotStartAreAFailure) {
  const Outcome outcome = preflight("-np 2", "DLRM_PREFLIGHT=/bin/false");
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_NE(line_of(outcome, "start").find("mpirun ended with"), std::string::npos)
      << outcome.output;
}

TEST(Preflight, BadOptionsAreRefused) {
  for (const char* options : {"--hosts a", "-np", "-np 0", "--hostfile /nowhere"}) {
    EXPECT_EQ(preflight(options).code, 2) << options;
  }
}

#if !defined(DLRM_SIMT)
TEST(Preflight, MissingGpusThatAreNeededAreAFailure) {
  const Outcome outcome = preflight("-np 1 --need-gpu", "CUDA_VISIBLE_DEVICES=");
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  EXPECT_EQ(line_of(outcome, "gpus").substr(0, 6), "failed") << outcome.output;
}
#else
TEST(Preflight, EmulatedDevicesExchange) {
  const Outcome outcome = preflight("-np 2");
  EXPECT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
  EXPECT_NE(line_of(outcome, "gpu exchange").find("staged"), std::string::npos) << outcome.output;
  for (const char* line :
       {"gpus          1 a node: emulated GPU; ranks share them (comm: staged, slow)",
        "driver        of an unknown version, serves CUDA 13.0; this program has 13.0",
        "peer access   one GPU a node"}) {
    EXPECT_NE(outcome.output.find("ok      " + std::string(line) + "\n"), std::string::npos)
        << line;
  }
}
#endif

}  // namespace
}  // namespace dlrm
