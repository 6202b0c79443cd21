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

TEST(RecordLayout, AnEighthOfTheSpaceIsLostAtMost) {
  for (int64_t record_bytes = 1; record_bytes < 20 * kBlockBytes; record_bytes += 7) {
    const RecordLayout layout = layout_of(record_bytes);
    EXPECT_GE(layout.group_records * record_bytes * 8, layout.group_blocks * kBlockBytes * 7)
        << record_bytes;
    // Groups of fewer blocks lose more.
    for (int64_t blocks = 1; blocks < layout.group_blocks; ++blocks) {
      const int64_t used = blocks * kBlockBytes / record_bytes * record_bytes;
      ASSERT_LT(used * 8, blocks * kBlockBytes * 7) << record_bytes;
    }
  }
}

TEST(RecordLayout, SegmentsHaveAsManyGroupsAsFit) {
  struct Case {
    int64_t rows, record_bytes, segment_bytes;
    int64_t group_blocks, group_records, data_blocks, segment_blocks, segment_records;
  };
  constexpr int64_t kMiB = int64_t{1} << 20;
  for (const Case& c :
       {Case{1, 64, 2 * kMiB, 1, 64, 15, 16, 960},  // segments of 64 KiB
        Case{1 << 20, 64, 2 * kMiB, 1, 64, 481, 512, 30784},
        Case{1 << 20, 5000, 2 * kMiB, 4, 3, 508, 509, 381},
        Case{20'000, 128, 2 * kMiB, 1, 32, 37, 39, 1184},  // of a sixteenth
        Case{1000, 128, 3 * 4096, 1, 32, 2, 3, 64}, Case{1000, 20'000, 4096, 5, 1, 5, 6, 1}}) {
    SsdRecordsOptions options;
    options.segment_bytes = c.segment_bytes;
    const RecordLayout layout(c.rows, c.record_bytes, options);
    EXPECT_EQ((std::vector{layout.group_blocks, layout.group_records, layout.data_blocks,
                           layout.segment_blocks, layout.segment_records}),
              (std::vector{c.group_blocks, c.group_records, c.data_blocks, c.segment_blocks,
                           c.segment_records}))
        << c.record_bytes << " bytes, " << c.rows << " rows";
    EXPECT_EQ(layout.most_segments, layout.segments_for(c.rows) + 8);
  }
}

// One and a half times the live records, and three segments.
TEST(RecordLayout, LiveRecordsMayTakeSomeMoreSegments) {
  const RecordLayout layout = layout_of(128);
  ASSERT_EQ(layout.segment_records, 64);
  for (const auto& [live, segments] : {std::pair(0, 3), std::pair(1, 4), std::pair(42, 4),
                                       std::pair(43, 4), std::pair(44, 5), std::pair(1000, 27)}) {
    EXPECT_EQ(layout.segments_for(live), segments) << live;
  }
}

TEST(RecordLayout, ARecordCrossesNoBlocksIfNothingIsLostOtherwise) {
  for (const int64_t record_bytes : {64, 128, 512, 516, 1024, 2048, 4096}) {
    EXPECT_EQ(layout_of(record_bytes).group_blocks, 1) << record_bytes;
  }
}

TEST(RecordLayout, ASegmentHoldsItsRowNumbersAndIsNotLongerThanAsked) {
  SsdRecordsOptions options;
  for (const int64_t record_bytes : {1, 64, 516, 5000}) {
    const RecordLayout layout(int64_t{1} << 30, record_bytes, options);
    EXPECT_LE(layout.segment_bytes(), options.segment_bytes + 2 * kBlockBytes);
    EXPECT_GE(layout.segment_bytes(), options.segment_bytes * 3 / 4);
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
