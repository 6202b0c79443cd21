#include "embedding/routing/bag_message.h"

#include <algorithm>
#include <memory>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/core/error.h"
#include "dlrm/wire/sample_code.h"

#include "error_of.h"

namespace dlrm {
namespace {

using ::testing::ElementsAre;

/// Three groups of three samples: bags of two ids each, bags of 0, 3 and 1, and the same bags with
/// coded lengths.
class BagMessage : public ::testing::TestWithParam<int64_t> {
 protected:
  static constexpr int64_t kSamples = 3;
  const int64_t far_ = GetParam() == 8 ? int64_t{1} << 40 : 1 << 30;
  const std::vector<int64_t> ids_{far_, 1, 2, 3, 4, 5, 7, far_ + 1, 9, 8};
  const std::vector<int64_t> offsets_{0, 2, 4, 6, 6, 9, 10};
  const std::vector<int32_t> samples_{1, 1, 1, 2};
  const std::vector<GroupHeader> headers_{
      {BagLengths::kEqual, 2, 6}, {BagLengths::kListed, 0, 4}, {BagLengths::kCoded, 0, 4}};
  std::vector<char> message_;
  std::vector<GroupSpan> spans_;

  void SetUp() override {
    message_.resize(static_cast<size_t>(message_bytes(headers_, kSamples, GetParam())));
    std::vector<GroupSpan> own(3);
    begin_message(message_.data(), headers_, kSamples, GetParam(), own);
    for (size_t g = 0; g < 2; ++g) {
      write_bags(own[g], GetParam(), ids_.data(), offsets_.data() + g * kSamples, kSamples);
    }
    write_bags(own[2], GetParam(), ids_.data(), offsets_.data() + kSamples, kSamples);
    write_samples(samples_, kSamples, own[2].code);
    open_message(message_, 3, kSamples, GetParam(), spans_);
  }

  /// Opens a changed message in memory of exactly its size, and reads all bags as an owner does.
  void read_all(const std::vector<char>& bytes) const {
    const auto message = std::make_unique<char[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), message.get());
    std::vector<GroupSpan> spans;
    open_message({message.get(), bytes.size()}, 3, kSamples, GetParam(), spans);
    for (const GroupSpan& span : spans) {
      for (const bool skips : {false, true}) {
        const auto ids = std::make_unique<int64_t[]>(static_cast<size_t>(span.header.count));
        const auto offsets = std::make_unique<int64_t[]>(kSamples + 1);
        const auto samples = std::make_unique<int32_t[]>(kSamples);
        BagCursor<int64_t> cursor{ids.get(), offsets.get(), samples.get()};
        const bool coded = span.header.lengths == BagLengths::kCoded;
        if (!(coded ? read_coded_bags(span, GetParam(), kSamples, skips, cursor)
                    : read_bags(span, GetParam(), kSamples, cursor))) {
          throw_damaged_message();
        }
        if (!coded) {
          EXPECT_EQ(offsets[kSamples], span.header.count);
        }
      }
    }
  }
};

TEST_P(BagMessage, BagsOfSeveralMessagesReadOneAfterTheOther) {
  std::vector<int64_t> ids(8), offsets(7, -1);
  offsets[0] = 0;
  BagCursor<int64_t> cursor{ids.data(), offsets.data()};
  ASSERT_TRUE(read_bags(spans_[1], GetParam(), kSamples, cursor));
  ASSERT_TRUE(read_coded_bags(spans_[2], GetParam(), kSamples, /*skips_empty_bags=*/false, cursor));
  EXPECT_THAT(ids, ElementsAre(7, far_ + 1, 9, 8, 7, far_ + 1, 9, 8));
  EXPECT_THAT(offsets, ElementsAre(0, 0, 3, 4, 4, 7, 8));
}

TEST_P(BagMessage, EmptyBagsAreLeftOut) {
  std::vector<int64_t> ids(8), offsets(5, -1);
  std::vector<int32_t> samples(4, -1);
  offsets[0] = 0;
  BagCursor<int64_t> cursor{ids.data(), offsets.data(), samples.data()};
  for (int message = 0; message < 2; ++message) {
    ASSERT_TRUE(
        read_coded_bags(spans_[2], GetParam(), kSamples, /*skips_empty_bags=*/true, cursor));
  }
  EXPECT_THAT(ids, ElementsAre(7, far_ + 1, 9, 8, 7, far_ + 1, 9, 8));
  EXPECT_THAT(offsets, ElementsAre(0, 3, 4, 7, 8));
  EXPECT_THAT(samples, ElementsAre(1, 2, 1, 2));
}

TEST_P(BagMessage, ReadingWithinRowsKeepsOnlyTheirIds) {
  const Range rows{2, far_ + 1};
  ASSERT_EQ(count_within(spans_[0], GetParam(), rows), 5);
  std::vector<int64_t> ids(5), offsets(4, 0);
  BagCursor<int64_t> cursor{ids.data(), offsets.data()};
  ASSERT_TRUE(read_bags_within(spans_[0], GetParam(), kSamples, rows, cursor));
  EXPECT_THAT(ids, ElementsAre(far_ - 2, 0, 1, 2, 3));
  EXPECT_THAT(offsets, ElementsAre(0, 1, 3, 5));
}

TEST_P(BagMessage, NoSamplesTakeNoBytes) {
  EXPECT_EQ(message_bytes(headers_, 0, GetParam()), 0);
  std::vector<GroupSpan> spans;
  open_message({}, 3, 0, GetParam(), spans);
  EXPECT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[2].header.count, 0);
  EXPECT_THROW(open_message(message_, 3, 0, GetParam(), spans), Error);
}

TEST_P(BagMessage, AnotherSizeIsAnError) {
  EXPECT_NO_THROW(read_all(message_));
  for (size_t size = 0; size < message_.size(); ++size) {
    EXPECT_THROW(read_all({message_.begin(), message_.begin() + static_cast<int64_t>(size)}),
                 Error);
  }
  std::vector<char> longer = message_;
  longer.resize(longer.size() + 8);
  EXPECT_THROW(read_all(longer), Error);
}

TEST_P(BagMessage, NoChangedByteMakesAnOwnerReadOrWriteOutside) {
  const size_t checked = 8 + 16;  // the ids have no structure
  for (size_t at = 0; at < checked; ++at) {
    for (int value = 0; value < 256; ++value) {
      std::vector<char> damaged = message_;
      damaged[at] = static_cast<char>(value);
      run_error_of([&] { read_all(damaged); });
    }
  }
}

TEST_P(BagMessage, RandomMessagesAreReadOrRefused) {
  std::mt19937 random(11);
  std::uniform_int_distribution<int> byte(0, 255), length(0, 80);
  for (int trial = 0; trial < 20000; ++trial) {
    std::vector<char> bytes(static_cast<size_t>(length(random)));
    for (char& c : bytes) c = static_cast<char>(byte(random) & (trial % 2 ? 255 : 31));
    run_error_of([&] { read_all(bytes); });
  }
}

INSTANTIATE_TEST_SUITE_P(Embedding, BagMessage, ::testing::Values(4, 8));

/// A header of each number of bytes.
TEST(GroupHeaders, ACountOfAnySizeIsReadAsItWasWritten) {
  for (const int32_t count : {0, 1, 31, 32, 4095, 4096, 600000}) {
    const std::vector<GroupHeader> headers{{BagLengths::kCoded, 0, count},
                                           {BagLengths::kEqual, count / 3, count / 3 * 3}};
    std::vector<char> message(static_cast<size_t>(message_bytes(headers, 3, 4)));
    std::vector<GroupSpan> own(2), spans;
    begin_message(message.data(), headers, 3, 4, own);
    open_message(message, 2, 3, 4, spans);
    ASSERT_EQ(spans.size(), count == 0 ? 1u : 2u);  // a group without ids is left out
    EXPECT_EQ(spans[0].header.count, count);
    EXPECT_EQ(spans.back().group, 1);
    EXPECT_EQ(spans.back().header.length, count / 3);
    EXPECT_EQ(spans.back().header.count, count / 3 * 3);
  }
}

struct Given {
  const char* name;
  std::vector<uint8_t> head;     ///< padded to 8 bytes
  std::vector<int32_t> lengths;  ///< if they are listed
  int64_t ids;
  bool sound;
  int64_t samples = 2;
};

/// Messages of one group whose sizes fit what an owner would read without the check.
TEST(GroupHeaders, OnlySoundOnesAreRead) {
  const std::vector<Given> all{
      {"empty bags", {0x00}, {}, 0, true},
      {"a number in five bytes", {0x80, 0x80, 0x80, 0x80, 0x00}, {}, 0, true},
      {"a number in six bytes", {0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, {}, 0, false},
      {"no end", {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80}, {}, 0, false},
      {"no way of lengths", {0x03}, {}, 0, false},
      {"2^32 ids", {0x81, 0x80, 0x80, 0x80, 0x40}, {0, 0}, 0, false},
      {"bags of 2^32 ids", {0x80, 0x80, 0x80, 0x80, 0x40}, {}, 0, false},
      {"four bags of 2^30 ids", {0x80, 0x80, 0x80, 0x80, 0x10}, {}, 0, false, 4},
      {"lengths", {2 << 2 | 1}, {2, 0}, 2, true},
      {"lengths of more ids", {2 << 2 | 1}, {2, 1}, 2, false},
      {"lengths of fewer ids", {2 << 2 | 1}, {0, 1}, 2, false},
      {"a negative length", {2 << 2 | 1}, {-1, 3}, 2, false},
      {"a negative last length", {2 << 2 | 1}, {3, -1}, 2, false}};
  for (const Given& given : all) {
    std::vector<char> message(given.head.begin(), given.head.end());
    message.resize(8);
    const auto* lengths = reinterpret_cast<const char*>(given.lengths.data());
    message.insert(message.end(), lengths, lengths + 4 * given.lengths.size());
    message.resize(message.size() + static_cast<size_t>(4 * given.ids));
    const auto read = [&] {
      std::vector<GroupSpan> spans;
      open_message(message, 1, given.samples, 4, spans);
      std::vector<int64_t> ids(static_cast<size_t>(given.ids)), offsets(3);
      BagCursor<int64_t> all{ids.data(), offsets.data()}, some = all;
      const bool sound = read_bags(spans[0], 4, given.samples, all);
      EXPECT_EQ(read_bags_within(spans[0], 4, given.samples, {0, 1}, some), sound) << given.name;
      if (!sound) throw_damaged_message();
    };
    EXPECT_EQ(error_of(read), given.sound ? "" : "another rank sent a damaged message of ids")
        << given.name;
  }
}

TEST(WeightedBagMessage, WeightsFollowTheIdsOfTheGroupsThatHaveSome) {
  std::vector<GroupHeader> headers{{BagLengths::kEqual, 1, 3, true},
                                   {BagLengths::kEqual, 2, 6},
                                   {BagLengths::kCoded, 0, 1, true},
                                   {BagLengths::kCoded, 0, 0, true}};
  std::vector<char> message(static_cast<size_t>(message_bytes(headers, 3, 4)));
  std::vector<GroupSpan> own(4), spans;
  begin_message(message.data(), headers, 3, 4, own);
  EXPECT_EQ(own[1].weights, nullptr);
  for (int k = 0; k < 3; ++k) own[0].weights[k] = static_cast<float>(k) / 2;
  own[2].weights[0] = 7;
  open_message(message, 4, 3, 4, spans, std::vector<char>{1, 0, 1, 1});
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].weights[2], 1);
  EXPECT_EQ(spans[1].weights, nullptr);
  EXPECT_EQ(spans[2].weights[0], 7);
  spans.clear();
  EXPECT_THROW(open_message(message, 4, 3, 4, spans, std::vector<char>{1, 1, 1, 1}), Error);
  EXPECT_THROW(open_message(message, 4, 3, 4, spans), Error);
}

}  // namespace
}  // namespace dlrm
