#include "embedding/records/record_layout.h"

#include <string>

#include <gtest/gtest.h>

#include "stores.h"

namespace dlrm::testing {
namespace {

TEST(RecordLayout, MoreRowsThanPlacesAreRefused) {
  SsdRecordsOptions options;
  options.name = "C3";
  const auto is_refused = [&](int64_t rows) {
    try {
      RecordLayout(rows, 64, options);
      return false;
    } catch (const Error&) {
      return true;
    }
  };
  int64_t most = 2'860'000'000, refused = 2'870'000'000;
  ASSERT_FALSE(is_refused(most));
  while (most + 1 < refused) {
    const int64_t rows = (most + refused) / 2;
    (is_refused(rows) ? refused : most) = rows;
  }
  const RecordLayout layout(most, 64, options);
  const int64_t places = layout.most_segments * layout.segment_records;
  EXPECT_LT(places, int64_t{1} << 32);
  EXPECT_GE(places + layout.segment_records, int64_t{1} << 32);
  const std::string error = usage_error_of([&] { RecordLayout(most + 10'000'000, 64, options); });
  const std::string begin = fmt::format(
      "C3: {} rows; a slice of a table on an SSD can have at most about ", most + 10'000'000);
  EXPECT_EQ(error.substr(0, begin.size()), begin);
  const std::string rest = error.substr(begin.size());
  EXPECT_NEAR(static_cast<double>(std::stol(rest)), static_cast<double>(most), 1e6);
  EXPECT_EQ(rest.substr(rest.find(';')), "; cut the table by rows over more ranks");
}

}  // namespace
}  // namespace dlrm::testing
