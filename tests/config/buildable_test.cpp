#include "dlrm/config/buildable.h"

#include "sample_config.h"

namespace dlrm {
namespace {

std::string refusal(const std::vector<std::string>& overrides, Capabilities build = {}) {
  return usage_error_of([&] { check_buildable(small_config(overrides), build); });
}

TEST(CheckBuildable, EveryShippedConfigPasses) {
  for (const std::string& path : all_config_paths()) {
    EXPECT_NO_THROW(check_buildable(load_config(path), {.cuda = true})) << path;
    if (load_config(path).device == DeviceKind::kCuda) continue;
    EXPECT_NO_THROW(check_buildable(load_config(path), {})) << path;
  }
}

TEST(CheckBuildable, TheErrorNamesTheMissingFeature) {
  EXPECT_EQ(refusal({"memory.tier=cached", "device=cuda"}, {.cuda = true}), "");
  EXPECT_EQ(refusal({"memory.tier=cached", "device=cpu"}), "");
  EXPECT_EQ(refusal({"memory.tier=cached", "memory.cached.middle=1GiB",
                     "memory.cached.backing=host", "device=cpu"}),
            "memory.cached.middle: needs memory.cached.backing: ssd; leave it empty");
  EXPECT_EQ(refusal({"memory.tier=cached", "memory.cached.middle=1GiB", "device=cpu"}), "");
  EXPECT_EQ(refusal({"memory.cached.middle=1GiB", "device=cpu"}), "");
}

TEST(CheckBuildable, DeviceCudaPassesInABuildWithCuda) {
  EXPECT_EQ(refusal({"device=cuda"}, {.cuda = true}), "");
  EXPECT_EQ(refusal({"device=cuda"}),
            "device cuda: this build has no CUDA; `launch/build.sh cuda` makes one that has");
}

TEST(CheckBuildable, CommunicatorsOfGpusPassIfThereMayBeAGpu) {
  for (const std::string comm : {"nccl", "staged"}) {
    const std::string text =
        "comm: " + comm + ": moves a GPU's memory, and this run is on a CPU; use auto or mpi";
    EXPECT_EQ(refusal({"comm=" + comm, "device=cuda"}, {.cuda = true}), "");
    EXPECT_EQ(refusal({"comm=" + comm, "device=auto"}, {.cuda = true}), "");
    EXPECT_EQ(refusal({"comm=" + comm, "device=cpu"}, {.cuda = true}), text);
    EXPECT_EQ(refusal({"comm=" + comm, "device=auto"}), text);
  }
}

}  // namespace
}  // namespace dlrm
