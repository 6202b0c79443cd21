#include "embedding/records/record_layout.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "stores.h"

namespace dlrm::testing {
namespace {

RecordLayout layout_of(int64_t record_bytes, int64_t rows = 100000) {
  return RecordLayout(rows, record_bytes, small_segments("."));
}

TEST(RecordLayout, RecordsLieApartWithinTheBlocksOfTheirSegment) {
  for (const int64_t record_bytes :
       {1, 3, 64, 100, 128, 516, 1028, 2048, 2052, 4096, 5000, 20000}) {
    const RecordLayout layout = layout_of(record_bytes);
    int64_t end = 0;
    for (int64_t place = 0; place < 3 * layout.segment_records; ++place) {
      const int64_t segment = layout.segment_of(place);
      const int64_t offset = layout.offset(place);
      ASSERT_GE(offset, std::max(end, segment * layout.segment_bytes())) << record_bytes;
      end = offset + record_bytes;
      ASSERT_LE(end, segment * layout.segment_bytes() + layout.data_blocks * kBlockBytes)
          << record_bytes;
      ASSERT_EQ(offset - segment * layout.segment_bytes(),
                layout.offset_in_segment(place % layout.segment_records));
    }
    EXPECT_GE((layout.segment_blocks - layout.data_blocks) * kBlockBytes,
              layout.segment_records * static_cast<int64_t>(sizeof(uint32_t)))
        << record_bytes;
  }
}

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
  const std::string error =
      error_of(ExitCode::kUsage, [&] { RecordLayout(most + 10'000'000, 64, options); });
  const std::string begin = fmt::format(
      "C3: {} rows; a slice of a table on an SSD can have at most about ", most + 10'000'000);
  EXPECT_EQ(error.substr(0, begin.size()), begin);
  const std::string rest = error.substr(begin.size());
  EXPECT_NEAR(static_cast<double>(std::stol(rest)), static_cast<double>(most), 1e6);
  EXPECT_EQ(rest.substr(rest.find(';')), "; cut the table by rows over more ranks");
}

}  // namespace
}  // namespace dlrm::testing
