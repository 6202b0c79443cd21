#include "dlrm/train/process_usage.h"

#include <vector>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

TEST(ProcessUsage, CpuSecondsGrowWithWork) {
  const double before = process_cpu_seconds();
  while (process_cpu_seconds() < before + 0.01) {
  }
  EXPECT_GT(CpuUsage().utilization(1), -1e-9);
}

TEST(ProcessUsage, PeakMemoryCoversWhatWasTouched) {
  constexpr size_t kBytes = size_t{64} << 20;
  const std::vector<char> touched(kBytes, 1);
  EXPECT_GE(peak_resident_bytes(), static_cast<int64_t>(kBytes) + touched[kBytes / 2]);
}

TEST(ProcessUsage, SomeCpuIsUsable) { EXPECT_GE(usable_cpus(), 1); }

}  // namespace
}  // namespace dlrm
