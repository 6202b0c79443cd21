#include "embedding/bag_message.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlrm {
namespace {

using ::testing::ElementsAre;

/// Two groups of three samples: bags of two ids each, and bags of 0, 3 and 1.
class BagMessage : public ::testing::TestWithParam<int64_t> {
 protected:
  static constexpr int64_t kSamples = 3;
  const int64_t far_ = GetParam() == 8 ? int64_t{1} << 40 : 1 << 30;
  const std::vector<int64_t> ids_{far_, 1, 2, 3, 4, 5, 7, far_ + 1, 9, 8};
  const std::vector<int64_t> offsets_{0, 2, 4, 6, 6, 9, 10};
  const std::vector<GroupHeader> headers_{{2, 6}, {-1, 4}};
  std::vector<char> message_;
  std::vector<GroupSpan> spans_;

  void SetUp() override {
    const auto bytes = static_cast<size_t>(message_bytes(headers_, kSamples, GetParam()));
    message_.resize(bytes);
    std::memcpy(message_.data(), headers_.data(), sizeof(GroupHeader) * headers_.size());
    locate_groups(message_.data(), headers_of(message_.data(), 2), kSamples, GetParam(), spans_);
    for (size_t g = 0; g < 2; ++g) {
      write_bags(spans_[g], GetParam(), ids_.data(), offsets_.data() + g * kSamples, kSamples);
    }
  }
};

TEST_P(BagMessage, HeadersLengthsAndIdsAreRoundedUpToEightBytes) {
  EXPECT_EQ(message_.size(), static_cast<size_t>(2 * 8 + 16 + 10 * GetParam()));
}

TEST_P(BagMessage, TheEndOfARangeOfRowsIsNotCounted) {
  EXPECT_EQ(count_within(spans_[0], GetParam(), {2, 5}), 3);
}

TEST_P(BagMessage, BagsOfSeveralMessagesReadOneAfterTheOther) {
  std::vector<int64_t> ids(8), offsets(7, -1);
  offsets[0] = 0;
  BagCursor<int64_t> cursor{ids.data(), offsets.data()};
  read_bags(spans_[1], GetParam(), kSamples, /*skips_empty_bags=*/false, cursor);
  read_bags(spans_[1], GetParam(), kSamples, /*skips_empty_bags=*/false, cursor);
  EXPECT_THAT(ids, ElementsAre(7, far_ + 1, 9, 8, 7, far_ + 1, 9, 8));
  EXPECT_THAT(offsets, ElementsAre(0, 0, 3, 4, 4, 7, 8));
}

TEST_P(BagMessage, ReadingWithinRowsKeepsOnlyTheirIds) {
  const Range rows{2, far_ + 1};
  ASSERT_EQ(count_within(spans_[0], GetParam(), rows), 5);
  std::vector<int64_t> ids(5), offsets(4, 0);
  BagCursor<int64_t> cursor{ids.data(), offsets.data()};
  read_bags_within(spans_[0], GetParam(), kSamples, rows, cursor);
  EXPECT_THAT(ids, ElementsAre(far_ - 2, 0, 1, 2, 3));
  EXPECT_THAT(offsets, ElementsAre(0, 1, 3, 5));
}

TEST_P(BagMessage, NoSamplesTakeNoBytes) { EXPECT_EQ(message_bytes(headers_, 0, GetParam()), 0); }

INSTANTIATE_TEST_SUITE_P(Embedding, BagMessage, ::testing::Values(4, 8));

}  // namespace
}  // namespace dlrm
