#include "dlrm/core/log.h"

#include <array>
#include <cstdlib>
#include <ctime>
#include <string>

#include <gmock/gmock.h>
#include <unistd.h>

#include "dlrm/core/host_name.h"
#include "dlrm/core/utc.h"

namespace dlrm {
namespace {

/// Seconds since local midnight.
int seconds_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return (local.tm_hour * 60 + local.tm_min) * 60 + local.tm_sec;
}

TEST(Log, ALineBeginsWithTheTimeOfDay) {
  const int before = seconds_of_day();
  ::testing::internal::CaptureStderr();
  Log().info("{} and {}", 1, "two");
  const std::string line = ::testing::internal::GetCapturedStderr();
  const int after = seconds_of_day();
  ASSERT_THAT(line, ::testing::MatchesRegex("[0-2][0-9]:[0-5][0-9]:[0-5][0-9] .*1 and two\n"));
  const int at = (std::stoi(line.substr(0, 2)) * 60 + std::stoi(line.substr(3, 2))) * 60 +
                 std::stoi(line.substr(6, 2));
  if (before <= after) {
    EXPECT_GE(at, before);
    EXPECT_LE(at, after);
  }
}

TEST(HostName, IsThatOfTheSystem) {
  std::array<char, 256> name{};
  ASSERT_EQ(gethostname(name.data(), name.size() - 1), 0);
  EXPECT_EQ(host_name(), name.data());
}

TEST(UtcText, IsIso8601) {
  EXPECT_EQ(utc_text(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(utc_text(1767225599), "2025-12-31T23:59:59Z");
  EXPECT_EQ(utc_text(1769861106), "2026-01-31T12:05:06Z");
}

}  // namespace
}  // namespace dlrm
