#include "embedding/records/segment_table.h"

#include <gmock/gmock.h>

#include "dlrm/core/error.h"

namespace dlrm::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Adds a segment with so many records, and seals it.
void add_sealed(SegmentTable& segments, int64_t records, bool ordered) {
  segments.grow();
  const int64_t segment = segments.take_free(0).value();
  for (int64_t i = 0; i < records; ++i) segments.add_record(segment);
  segments.seal(segment, ordered);
}

TEST(SegmentTable, AFreeSegmentWaitsForTheOldestReadThatMayUseIt) {
  SegmentTable segments;
  segments.grow();
  EXPECT_EQ(segments.take_free(/*oldest=*/7), 0) << "it was never used";
  segments.seal(0, true);
  segments.free(0, /*newest=*/5);
  EXPECT_EQ(segments.take_free(4), std::nullopt);
  EXPECT_EQ(segments.take_free(5), std::nullopt);
  EXPECT_EQ(segments.take_free(6), 0);
  segments.seal(0, true);
  segments.free(0, 9);
  EXPECT_EQ(segments.take_free(/*no read=*/0), 0);
}

TEST(SegmentTable, CountsTheLiveRecordsOfEachSegmentAndOfAll) {
  SegmentTable segments;
  add_sealed(segments, 5, true);
  add_sealed(segments, 3, true);
  segments.drop_record(0);
  EXPECT_EQ(segments.size(), 2);
  EXPECT_EQ(segments.live(), 7);
  EXPECT_EQ(segments.live(0), 4);
  EXPECT_EQ(segments.live(1), 3);
}

TEST(SegmentTable, TheEmptiestSegmentIsSealed) {
  SegmentTable segments;
  EXPECT_THROW(segments.emptiest(), Error);
  for (const int64_t records : {4, 2, 3, 2}) add_sealed(segments, records, true);
  segments.grow();  // free
  EXPECT_EQ(segments.emptiest(), 1);
  segments.grow();
  EXPECT_EQ(segments.take_free(0), 5);  // open
  segments.drop_record(1);
  segments.drop_record(1);
  segments.free(1, 0);
  EXPECT_EQ(segments.emptiest(), 3);
  segments.seal(5, true);
  EXPECT_EQ(segments.emptiest(), 5);
}

TEST(SegmentTable, OnlySealedSegmentsWithoutLiveRecordsMayBeFreed) {
  SegmentTable segments;
  add_sealed(segments, 1, true);
  EXPECT_THROW(segments.free(0, 0), Error);
  segments.drop_record(0);
  segments.free(0, 0);
  EXPECT_THROW(segments.free(0, 0), Error) << "again";
}

TEST(SegmentTable, FreeSegmentsAreTakenInTheirOrderAndNewOnesFirst) {
  SegmentTable segments;
  for (int i = 0; i < 3; ++i) add_sealed(segments, 0, true);
  EXPECT_FALSE(segments.has_free());
  for (const int64_t segment : {2, 0, 1}) segments.free(segment, 0);
  segments.grow();
  EXPECT_TRUE(segments.has_free());
  for (const int64_t segment : {3, 2, 0, 1}) EXPECT_EQ(segments.take_free(0), segment);
  EXPECT_FALSE(segments.has_free());
  EXPECT_EQ(segments.take_free(0), std::nullopt);
}

TEST(SegmentTable, ListsTheFirstSealedSegmentsThatAreNotOrdered) {
  SegmentTable segments;
  for (const bool ordered : {true, false, false, true, false}) add_sealed(segments, 0, ordered);
  segments.grow();
  segments.free(2, 0);
  EXPECT_THAT(segments.unordered(9), ElementsAre(1, 4));
  EXPECT_THAT(segments.unordered(2), ElementsAre(1, 4));
  EXPECT_THAT(segments.unordered(1), ElementsAre(1));
  EXPECT_THAT(segments.unordered(0), IsEmpty());
  // The open segment may be one that was not in order.
  segments.take_free(0);
  EXPECT_EQ(segments.take_free(0), 2);
  EXPECT_THAT(segments.unordered(9), ElementsAre(1, 4));
}

TEST(SegmentTable, KnowsNothingOfBeforeItWasCleared) {
  SegmentTable segments;
  for (int i = 0; i < 3; ++i) add_sealed(segments, 4, false);
  segments.grow();
  segments.clear();
  EXPECT_EQ(segments.size(), 0);
  EXPECT_EQ(segments.live(), 0);
  EXPECT_FALSE(segments.has_free());
  EXPECT_THAT(segments.unordered(9), IsEmpty());
  segments.grow();
  EXPECT_EQ(segments.take_free(0), 0);
  EXPECT_EQ(segments.live(0), 0);
  EXPECT_THROW(segments.emptiest(), Error) << "the open segment is not sealed";
  segments.grow();
  add_sealed(segments, 2, true);
  EXPECT_EQ(segments.emptiest(), 2);
  EXPECT_THAT(segments.unordered(9), IsEmpty());
}

}  // namespace
}  // namespace dlrm::testing
