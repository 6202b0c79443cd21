#include "dlrm/config/buildable.h"

#include "sample_config.h"

namespace dlrm {
namespace {

std::string refusal(const std::vector<std::string>& overrides) {
  try {
    check_buildable(small_config(overrides));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(CheckBuildable, LetsEveryShippedConfigThrough) {
  for (const std::string& path : all_config_paths()) {
    EXPECT_NO_THROW(check_buildable(load_config(path))) << path;
  }
}

TEST(CheckBuildable, LetsHostMemoryAndFixedRoutingThrough) {
  EXPECT_EQ(refusal({"memory.tier=host", "memory.tables={t: device}", "routing.mode=fixed",
                     "comm=mpi", "device=cpu"}),
            "");
}

TEST(CheckBuildable, NamesWhatIsNotBuiltYet) {
  EXPECT_EQ(refusal({"model.activation=gelu"}), "model.activation: gelu: not built yet; use relu");
  EXPECT_EQ(refusal({"model.tables.t.dtype=bf16"}),
            "table t_0: dtype bf16: not built yet; use fp32");
  EXPECT_EQ(refusal({"memory.tier=cached"}),
            "memory.tier: cached: not built yet; use auto, device or host");
  EXPECT_EQ(refusal({"memory.tables={C1: cached}"}),
            "memory.tables.C1: cached: not built yet; use auto, device or host");
}

}  // namespace
}  // namespace dlrm
