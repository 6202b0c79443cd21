#include "embedding/routing/bag_scan.h"

#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/plan/plan.h"

#include "embedding/training.h"

namespace dlrm::testing {
namespace {

using ::testing::HasSubstr;

/// Features whose id lists have many chunks, none, and part of one.
class BagScans : public ::testing::TestWithParam<int> {
 protected:
  static constexpr int64_t kSamples = 500;
  const Tables tables_{table_of("long", 1000000, 4, {100}, Pooling::kSum),
                       table_of("empty", 10, 4, {1}, Pooling::kSum),
                       table_of("short", 300, 4, {1, 3}, Pooling::kSum)};
  const EmbeddingLayout layout_{tables_, plan_of("table", tables_, 1), RoutingMode::kExact};
  std::vector<int64_t> ids_, offsets_{0};

  void SetUp() override {
    const std::vector<std::pair<int64_t, int64_t>> features{
        {100, 1000000}, {0, 10}, {1, 300}, {3, 300}};
    for (const auto& [length, rows] : features) {
      for (int64_t i = 0; i < kSamples; ++i) {
        for (int64_t k = 0; k < length; ++k) {
          ids_.push_back(static_cast<int64_t>(ids_.size()) * 7919 % rows);
        }
        offsets_.push_back(static_cast<int64_t>(ids_.size()));
      }
    }
  }
  LocalBags bags() const { return {{0, kSamples}, kSamples, ids_, offsets_}; }
  std::vector<BagScan> scans() const {
    std::vector<BagScan> scans;
    scan_offsets(layout_, bags(), GetParam(), scans);
    return scans;
  }
  /// The ids of all features but the last, copied one after another.
  template <class T>
  std::vector<int64_t> copied() const {
    std::vector<T> to(ids_.size(), T{-1});
    std::vector<IdDestination> places;
    for (const BagScan& scan : scans()) places.push_back({to.data() + scan.first, sizeof(T)});
    places.back() = {};
    check_and_copy_ids(layout_, bags(), scans(), GetParam(), places);
    return {to.begin(), to.end()};
  }
  std::string error() const {
    return error_of([&] {
      check_and_copy_ids(layout_, bags(), scans(), GetParam(),
                         std::vector<IdDestination>(layout_.features.size()));
    });
  }
};

TEST_P(BagScans, IdsAreCopiedToTheirDestination) {
  std::vector<int64_t> expected = ids_;
  std::fill(expected.end() - 3 * kSamples, expected.end(), -1);
  EXPECT_EQ(copied<int64_t>(), expected);
  EXPECT_EQ(copied<int32_t>(), expected);
  EXPECT_EQ(error(), "");
}

TEST_P(BagScans, TheFirstBadIdOfAllChunksIsNamed) {
  ids_.back() = 300;
  EXPECT_THAT(error(), HasSubstr("sample 499 of the global batch, feature short_1: id 300 is"));
  ids_[49999] = -4;
  EXPECT_THAT(error(), HasSubstr("sample 499 of the global batch, feature long_0: id -4 is"));
  ids_[33000] = 1000000;
  EXPECT_THAT(error(), HasSubstr("sample 330 of the global batch, feature long_0: id 1000000 is"));
}

TEST_P(BagScans, OffsetsMayBeginAboveZero) {
  std::vector<int64_t> expected = ids_;
  std::fill(expected.end() - 3 * kSamples, expected.end(), -1);
  expected.insert(expected.begin(), 2, -1);
  ids_.insert(ids_.begin(), 2, -5);
  for (int64_t& offset : offsets_) offset += 2;
  EXPECT_EQ(copied<int64_t>(), expected);
  EXPECT_EQ(error(), "");
  ids_.back() = 300;
  EXPECT_THAT(error(), HasSubstr("sample 499 of the global batch, feature short_1: id 300 is"));
}

TEST_P(BagScans, OffsetsThatFallOrLeaveTheIdsAreRefused) {
  const std::string expected = fmt::format(
      "local bags: offsets must not fall and must be within [0, {}], the ids", ids_.size());
  const std::vector<int64_t> good = offsets_;
  offsets_[7] = offsets_[8] + 1;
  EXPECT_EQ(error(), expected);
  offsets_ = good;
  offsets_.front() = -1;
  EXPECT_EQ(error(), expected);
  offsets_ = good;
  ++offsets_.back();
  EXPECT_EQ(error(), expected);
}

/// Only offsets are read, so the ids need no memory.
TEST_P(BagScans, AFeatureHasAtMostTwoToThe31MinusOneIds) {
  const int64_t most = std::numeric_limits<int32_t>::max();
  for (const size_t feature : {0, 2, 3}) {
    for (const int64_t count : {most, most + 1}) {
      std::vector<int64_t> offsets(feature + 1, 0);
      offsets.resize(5, count);
      const LocalBags many{{0, 1}, 1, {ids_.data(), static_cast<size_t>(count)}, offsets};
      std::vector<BagScan> scans;
      const std::string error =
          usage_error_of([&] { scan_offsets(layout_, many, GetParam(), scans); });
      EXPECT_EQ(error, count == most
                           ? ""
                           : fmt::format("feature {}: 2147483648 ids in one rank's part of a "
                                         "batch; at most 2^31 - 1 fit",
                                         layout_.features[feature].name));
    }
  }
}

TEST_P(BagScans, AnotherNumberOfOffsetsIsRefused) {
  const std::vector<int64_t> good = offsets_;
  for (const size_t size : {good.size() - 1, good.size() + 1, size_t{0}}) {
    offsets_ = good;
    offsets_.resize(size, good.back());
    EXPECT_EQ(error(),
              fmt::format("local bags have {} offsets; 4 features of 500 samples need 2001", size));
  }
}

INSTANTIATE_TEST_SUITE_P(Embedding, BagScans, ::testing::Values(1, 2, 5));

}  // namespace
}  // namespace dlrm::testing
