#pragma once
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commands.h"

namespace dlrm {

/// What dlrm-data printed, and its exit code.
struct DataCommand {
  int code = 0;
  std::string output;
  std::string error;
};

/// Runs dlrm-data with these words in this process.
inline DataCommand run_data_command(std::vector<std::string> words) {
  words.insert(words.begin(), "dlrm-data");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  DataCommand out;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  out.code = run_dlrm_data(static_cast<int>(argv.size()), argv.data());
  out.output = ::testing::internal::GetCapturedStdout();
  out.error = ::testing::internal::GetCapturedStderr();
  return out;
}

}  // namespace dlrm
