#pragma once
#include <string>

#include <gtest/gtest.h>

#include "program.h"

namespace dlrm {

/// The last line on stderr that begins with "error: ".
std::string error_line(const Outcome& outcome);

/// A folder with a small data set (train.h5, test.h5) and a config (config.yaml) of unusual shapes.
class SmallRun : public testing::Test {
 protected:
  void SetUp() override;

  /// Runs dlrm-train in the folder on `ranks` ranks. One rank runs without mpirun.
  Outcome train(int ranks, const std::string& arguments,
                const std::string& config = "config.yaml") const;
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  TemporaryFolder folder_;
};

/// A SmallRun whose config has been trained on two ranks, with a checkpoint of step 40.
class TrainedRun : public SmallRun {
 protected:
  void SetUp() override;
};

}  // namespace dlrm
