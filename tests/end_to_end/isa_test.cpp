// DLRM_MAX_CPU_ISA, as users set it.
#include "fixture.h"

namespace dlrm {
namespace {

class InstructionSets : public SmallRun {
 protected:
  Outcome train_limited(const std::string& limit, const std::string& arguments) {
    return run_command(
        "DLRM_MAX_CPU_ISA=" + limit + " dlrm-train config.yaml --overwrite " + arguments,
        folder_.path());
  }
};

TEST_F(InstructionSets, AnotherSetTrainsToTheSameLossesWithinRounding) {
  for (const auto& [precision, tolerance] : {std::pair("fp32", 1e-4), std::pair("bf16", 2e-2)}) {
    const std::string set = std::string("--set train.precision=") + precision;
    const Outcome best = train(1, "--overwrite " + set);
    ASSERT_EQ(best.code, 0) << best.errors;
    const std::vector<double> want = losses(path("run"));
    const Outcome limited = train_limited("avx2", set);
    ASSERT_EQ(limited.code, 0) << limited.errors;
    const std::vector<double> got = losses(path("run"));
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance * want[i]);
    const auto summary = nlohmann::json::parse(read_file(path("run/summary.json")));
    EXPECT_NE(summary["instruction_set"], "avx512");
  }
}

}  // namespace
}  // namespace dlrm
