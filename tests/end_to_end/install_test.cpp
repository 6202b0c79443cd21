#include "fixture.h"

namespace dlrm {
namespace {

TEST(Install, ACustomProgramBuildsAgainstTheInstalledLibraryAndTrains) {
  const TemporaryFolder folder;
  const Outcome built = run_command(
      "cmake --install '" DLRM_BUILD
      "' --prefix installed >/dev/null &&"
      " cmake -S '" +
          (source_folder() / "examples/own_model").string() +
          "' -B example -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=$PWD/installed"
          " -DCMAKE_CXX_FLAGS='" DLRM_SANITIZER_FLAGS
          "' >/dev/null &&"
          " cmake --build example",
      folder.path(), 400);
  ASSERT_EQ(built.code, 0) << built.output << built.errors;
  const std::string model = (source_folder() / "examples/own_model/model.yaml").string();
  for (const int ranks : {1, 3}) {
    const Outcome trained = run_command(
        "mpirun -np " + std::to_string(ranks) + " example/own_model " + model, folder.path());
    ASSERT_EQ(trained.code, 0) << trained.errors;
    const auto loss_at = [&](const std::string& step) {
      const auto at = trained.errors.find("step " + step + ": loss ");
      return at == std::string::npos ? -1 : std::stod(trained.errors.substr(at + 12 + step.size()));
    };
    EXPECT_NEAR(loss_at("1"), 0.693, 0.1);
    EXPECT_LT(loss_at("30"), 0.1) << trained.errors;
    EXPECT_TRUE(std::filesystem::exists(folder / "own_model_ckpt/step_000000030/index.h5"));
  }
  const Outcome programs = run_command(
      "PATH=$PWD/installed/bin:$PATH; dlrm-train --version && dlrm-run --help", folder.path());
  EXPECT_EQ(programs.code, 0) << programs.errors;
}

}  // namespace
}  // namespace dlrm
