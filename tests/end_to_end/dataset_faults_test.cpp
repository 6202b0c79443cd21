#include "fixture.h"

namespace dlrm {
namespace {

/// Faults of a dataset file, on one rank and on several.
class DatasetFaults : public SmallRun, public testing::WithParamInterface<int> {
 protected:
  std::string program() const {
    return GetParam() == 1
               ? "dlrm-train"
               : "mpirun -np " + std::to_string(GetParam()) + " --oversubscribe dlrm-train";
  }
};

TEST_P(DatasetFaults, AFileCutShortDuringTrainingEndsEveryRankWith3) {
  for (const char* size : {"5000", "-1"}) {
    SetUp();
    const Outcome outcome = run_command(
        "rm -rf run\n" + program() +
            " config.yaml --set train.steps=100000000 & job=$!\n"
            "for i in $(seq 600); do [ -s run/metrics.jsonl ] && break; sleep 0.05; done\n"
            "truncate -s " +
            size + " train.h5\nwait $job\n",
        folder_.path());
    EXPECT_EQ(outcome.code, 3) << outcome.errors;
    EXPECT_NE(error_line(outcome).find("train.h5: was cut short"), std::string::npos)
        << outcome.errors;
  }
}

TEST_P(DatasetFaults, AChangedByteIsFoundBeforeItIsUsed) {
  // A bit of a dense value, which stays a valid number.
  ASSERT_EQ(
      run_command("/usr/bin/python3 -c \"import h5py, numpy; f = h5py.File('train.h5', 'r+'); "
                  "f['dense'][1500, 1] = numpy.nextafter(f['dense'][1500, 1], numpy.float32(0))\"",
                  folder_.path())
          .code,
      0);
  const Outcome outcome = train(GetParam(), "");
  EXPECT_EQ(outcome.code, 2) << outcome.errors;
  EXPECT_NE(error_line(outcome).find("train.h5: /dense is damaged in samples 0 to 1999"),
            std::string::npos)
      << outcome.errors;
  EXPECT_EQ(train(GetParam(), "--set data.verify=false").code, 0);
}

INSTANTIATE_TEST_SUITE_P(Ranks, DatasetFaults, testing::Values(1, 2));

}  // namespace
}  // namespace dlrm
