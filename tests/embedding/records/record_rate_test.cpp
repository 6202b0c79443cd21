#include "dlrm/embedding/record_rate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "stores.h"

namespace dlrm::testing {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Measures memory, or an SSD.
class RecordRates : public ::testing::TestWithParam<bool> {
 protected:
  RecordRate measure(int64_t record_bytes, int64_t bytes, double seconds) {
    const auto begin = Clock::now();
    const RecordRate rate = GetParam() ? measure_ssd(folder_.path(), record_bytes, bytes, seconds)
                                       : measure_memory(record_bytes, bytes, seconds);
    elapsed_ = seconds_since(begin);
    return rate;
  }

  const StoreFolder folder_;
  double elapsed_ = 0;
};

TEST_P(RecordRates, AreThoseOfTheTimeThatTheyTook) {
  for (const int64_t rows : {1, 100, 4096, 10'000}) {
    const double seconds = rows == 100 ? 0.02 : 0;  // reads at least once
    const RecordRate rate = measure(64, 64 * rows + 63, seconds);
    EXPECT_GE(elapsed_, seconds) << rows;
    const double written = rows == 10'000 ? 8192 : static_cast<double>(rows);  // whole batches
    ASSERT_GT(rate.rows_written, 0) << rows;
    ASSERT_GT(rate.rows_read, 0) << rows;
    // A batch has some rows twice, which are read once.
    const double read = std::min(written, 2000.0) / 2;
    EXPECT_LE(written / rate.rows_written + read / rate.rows_read, elapsed_) << rows;
    EXPECT_GE(rate.write_cpu_seconds, 0) << rows;
    EXPECT_GE(rate.read_cpu_seconds, 0) << rows;
    EXPECT_TRUE(std::isfinite(rate.rows_written) && std::isfinite(rate.rows_read)) << rows;
  }
}

TEST_P(RecordRates, OfARecordThatIsLongerThanTheBytesAreThoseOfOne) {
  const RecordRate rate = measure(8192, 100, 0);
  EXPECT_GT(rate.rows_read, 0);
  EXPECT_GT(rate.rows_written, 0);
  EXPECT_GE(elapsed_, 1 / rate.rows_read + 1 / rate.rows_written);
}

INSTANTIATE_TEST_SUITE_P(Tiers, RecordRates, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return info.param ? "ssd" : "memory";
                         });

TEST(SsdRates, OfAFolderThatCannotBeAreAnError) {
  const std::string error = usage_error_of([] { measure_ssd("/dev/null/none", 64, 6400, 0); });
  EXPECT_EQ(error.rfind("/dev/null/none: ", 0), 0u) << error;
}

}  // namespace
}  // namespace dlrm::testing
