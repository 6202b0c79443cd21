#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "fixture.h"

namespace dlrm {
namespace {

/// A value out of bounds must end with 2 and one line that names the option.
class OptionBounds : public SmallRun {
 protected:
  void expect_refused(const std::string& command, const std::string& option) const {
    const Outcome outcome = run_command(command, folder_.path(), 60);
    EXPECT_EQ(outcome.code, 2) << command << "\n" << outcome.errors;
    EXPECT_NE(error_line(outcome).find(option), std::string::npos) << command << "\n"
                                                                   << outcome.errors;
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << command << "\n"
                                                                                 << outcome.errors;
  }
};

TEST_F(OptionBounds, OfDlrmDataAreNamed) {
  std::string line = "0";
  for (int field = 0; field < 39; ++field) line += "\t";
  write_file(path("in.tsv"), line + "\n");
  const std::string criteo = "dlrm-data criteo in.tsv --output out.h5 ";
  for (const char* threads : {"0", "-1", "1025", "40000", "99999999999999999999"}) {
    expect_refused(criteo + "--threads " + threads, "--threads");
  }
  for (const char* rows : {"0", "2147483648", "99999999999999999999"}) {
    expect_refused(criteo + "--max-rows " + rows, "--max-rows");
  }
  expect_refused(criteo + "--frequency-threshold 0", "--frequency-threshold");
  const std::string synth = "dlrm-data synth --output out.h5 --config config.yaml ";
  for (const char* threads : {"-1", "1025", "40000"}) {
    expect_refused(synth + "--samples 10 --threads " + threads, "--threads");
  }
  for (const char* samples : {"0", "-1", "1099511627777", "99999999999999999999"}) {
    expect_refused(synth + "--samples " + samples, "--samples");
    const bool good = std::string(samples) == "0";
    if (!good) expect_refused(synth + "--samples 10 --first-sample " + samples, "--first-sample");
  }
  expect_refused(synth + "--samples 10 --alpha 101", "--alpha");
  EXPECT_FALSE(std::filesystem::exists(path("out.h5")));
}

TEST_F(OptionBounds, OfDlrmPlanAndDlrmTrainAreNamed) {
  for (const char* ranks : {"0", "-1", "65537", "99999999999999999999"}) {
    expect_refused("dlrm-plan config.yaml --ranks " + std::string(ranks), "--ranks");
    expect_refused("dlrm-plan config.yaml --ranks 2 --ranks-per-node " + std::string(ranks),
                   "--ranks-per-node");
    expect_refused("dlrm-train config.yaml --plan-only --ranks " + std::string(ranks), "--ranks");
  }
  for (const char* gib : {"0", "-1", "inf", "nan", "1e300"}) {
    for (const char* option : {"--device-memory", "--host-memory"}) {
      const std::string words = std::string(option) + " " + gib;
      expect_refused("dlrm-plan config.yaml --ranks 2 " + words, option);
      expect_refused("dlrm-train config.yaml --plan-only " + words, option);
    }
  }
  expect_refused("OMP_NUM_THREADS=40000 dlrm-train config.yaml --set train.threads=0",
                 "OMP_NUM_THREADS");
}

TEST_F(OptionBounds, OfDlrmInferAreNamed) {
  const auto refuse = [&](const std::string& option, const std::vector<const char*>& values,
                          const std::string& others = "") {
    for (const std::string value : values) {
      expect_refused("dlrm-infer ckpt " + others + " --" + option + "=" + value, "--" + option);
    }
  };
  refuse("batch-size", {"0", "1048577", "x"});
  refuse("threads", {"0", "1025", "x"});
  refuse("tables", {"fp8"});
  refuse("port", {"-1", "65536"});
  refuse("batch-wait", {"-1", "10000001"}, "--port 0");
  refuse("max-body", {"0", "4097"}, "--port 0");
  refuse("max-connections", {"0", "4097"}, "--port 0");
  refuse("timeout", {"0", "3601"}, "--port 0");
  refuse("reload-interval", {"-1", "1000001"}, "--port 0");
  for (const char* option : {"host=::1", "batch-wait=1", "max-body=1", "max-connections=1",
                             "timeout=1", "reload-interval=1"}) {
    expect_refused("dlrm-infer ckpt --" + std::string(option), "--port");
  }
}

}  // namespace
}  // namespace dlrm
