#pragma once
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace dlrm {

/// Compares a text with a file. Whoever changes it on purpose sets DLRM_UPDATE_COUNTS=1, and the
/// file is written anew.
inline void expect_text_of_file(const std::string& text, const std::string& path) {
  if (std::getenv("DLRM_UPDATE_COUNTS") != nullptr) std::ofstream(path) << text;
  std::ostringstream expected;
  expected << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, expected.str());
}

}  // namespace dlrm
