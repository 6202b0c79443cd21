#include "fixture.h"

namespace dlrm {
namespace {

class BatchSize : public SmallRun {
 protected:
  /// The batch size in a run's config.yaml.
  int64_t size_in(const std::string& run) const {
    const std::string yaml = read_file(path(run + "/config.yaml")), key = "global_batch_size: ";
    const size_t at = yaml.find(key);
    return at == std::string::npos ? 0 : std::stoll(yaml.substr(at + key.size()));
  }
  static std::string into(const std::string& run) {
    return "--set train.global_batch_size=auto --set train.steps=3 --set output.directory=" + run +
           " --set checkpoint.directory=" + run + "/c ";
  }
};

TEST_F(BatchSize, ThatIsAutoIsThePowerOfTwoBelowTheSamplesOfTheData) {
  const Outcome outcome = train(2, into("auto"));
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.errors.find("train.global_batch_size: auto is 1024 (of 2000 samples)"),
            std::string::npos)
      << outcome.errors;
  EXPECT_EQ(size_in("auto"), 1024);
  ASSERT_EQ(train(2, into("fixed") + "--set train.global_batch_size=1024").code, 0);
  EXPECT_EQ(losses(path("auto")), losses(path("fixed")));
}

TEST_F(BatchSize, ThatIsAutoDependsOnTheTestDataIfNothingElseIsRead) {
  ASSERT_EQ(train(1, into("run") + "--set checkpoint.at_end=true").code, 0);
  const Outcome outcome = train(2, into("run") + "--eval-only");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.errors.find("train.global_batch_size: auto is 256 (of 501 samples)"),
            std::string::npos)
      << outcome.errors;
}

TEST_F(BatchSize, ThatIsAutoFitsTheMemoryAndStaysOnResume) {
  const Outcome small =
      train(1, into("small") + "--set memory.host=1MiB --set checkpoint.at_end=true");
  ASSERT_EQ(small.code, 0) << small.errors;
  const int64_t size = size_in("small");
  EXPECT_GE(size, 1);
  EXPECT_LT(size, 1024);
  EXPECT_NE(small.errors.find(fmt::format("auto is {} (a rank needs ", size)), std::string::npos)
      << small.errors;
  const Outcome resumed = train(1, into("small") + "--set train.steps=5 --resume");
  ASSERT_EQ(resumed.code, 0) << resumed.errors;
  EXPECT_NE(resumed.errors.find("(of the checkpoint)"), std::string::npos) << resumed.errors;
  EXPECT_EQ(size_in("small"), size);
}

TEST_F(BatchSize, ThatIsAutoIsPlannedForTheGivenMemory) {
  const std::string plan = "dlrm-plan config.yaml --set train.global_batch_size=auto --ranks 2 ";
  const Outcome unknown = run_command(plan, folder_.path());
  EXPECT_EQ(unknown.code, 2);
  const Outcome planned = run_command(plan + "--device-memory 1", folder_.path());
  ASSERT_EQ(planned.code, 0) << planned.errors;
  EXPECT_NE(planned.output.find("train.global_batch_size: auto is "), std::string::npos)
      << planned.output;
}

TEST_F(BatchSize, ALossThatRisesIsWarnedOfOnce) {
  const Outcome outcome = train(1,
                                "--set train.global_batch_size=2000 --set train.steps=40 --set "
                                "'train.dense_optimizer={type: sgd, lr: 2}'");
  const std::string warning = "the mean loss rose from";
  const size_t at = outcome.errors.find(warning);
  ASSERT_NE(at, std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.errors.find(warning, at + 1), std::string::npos) << outcome.errors;
  const Outcome calm = train(1,
                             "--set train.global_batch_size=2000 --set output.directory=calm --set "
                             "'train.dense_optimizer={type: sgd, lr: 0.01}'");
  ASSERT_EQ(calm.code, 0) << calm.errors;
  EXPECT_EQ(calm.errors.find(warning), std::string::npos) << calm.errors;
}

}  // namespace
}  // namespace dlrm
