#include "embedding/tiers/record_layout.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "stores.h"

namespace dlrm::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  for (int64_t record_bytes = 1; record_bytes < 3 * kBlockBytes; record_bytes += 7) {
    const RecordLayout layout = layout_of(record_bytes);
    EXPECT_GE(layout.group_records * record_bytes * 8, layout.group_blocks * kBlockBytes * 7)
        << record_bytes;
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
  const int64_t most = int64_t{2'860'000'000};
  EXPECT_NO_THROW(RecordLayout(most, 64, SsdRecordsOptions{}));
  EXPECT_THAT(error_of(ExitCode::kUsage,
                       [&] {
                         SsdRecordsOptions options;
                         options.name = "C3";
                         RecordLayout(most + 10'000'000, 64, options);
                       }),
              AllOf(HasSubstr("C3"), HasSubstr("2870000000 rows"), HasSubstr("more ranks")));
}

}  // namespace
}  // namespace dlrm::testing
