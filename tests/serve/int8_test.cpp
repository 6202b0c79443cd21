#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "dlrm/core/isa.h"

#include "serve/int8_rows.h"

namespace dlrm::serve {
namespace {

struct Row {
  std::vector<std::byte> stored;
  float scale = 0;
  std::vector<float> values;  ///< s·q
};

Row stored(const std::vector<float>& weights) {
  const auto width = static_cast<int64_t>(weights.size());
  Row row;
  row.stored.resize(static_cast<size_t>(int8_row_bytes(width)));
  write_int8_row(weights.data(), width, row.stored.data());
  std::memcpy(&row.scale, row.stored.data(), sizeof(float));
  for (int64_t c = 0; c < width; ++c) {
    const auto q = static_cast<int8_t>(row.stored[sizeof(float) + static_cast<size_t>(c)]);
    row.values.push_back(row.scale * static_cast<float>(q));
  }
  return row;
}

std::vector<float> drawn(std::mt19937& random, int64_t width, float size) {
  std::normal_distribution<float> normal(0, size);
  std::vector<float> row(static_cast<size_t>(width));
  for (float& w : row) w = normal(random);
  return row;
}

TEST(Int8Rows, TheErrorIsAtMostHalfAScale) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const float size = std::pow(10.0f, static_cast<float>(i % 30 - 20));
    const std::vector<float> weights = drawn(random, 1 + i % 37, size);
    const Row row = stored(weights);
    float largest = 0;
    for (size_t c = 0; c < weights.size(); ++c) {
      largest = std::max(largest, std::abs(weights[c]));
      ASSERT_LE(std::abs(weights[c] - row.values[c]), row.scale / 2 * 1.0001f);
    }
    ASSERT_FLOAT_EQ(row.scale, largest / 127);
  }
}

TEST(Int8Rows, ZerosStayZeros) {
  const Row row = stored({0, 0, 0});
  EXPECT_EQ(row.scale, 0);
  EXPECT_EQ(row.values, std::vector<float>({0, 0, 0}));
  EXPECT_EQ(stored({1e-40f, 0}).values, std::vector<float>({0, 0}));
}

/// Bags of a table of random rows, with empty ones.
class Int8Bagged : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    std::mt19937 random(7);
    const auto bytes = static_cast<size_t>(int8_row_bytes(width_));
    table_.resize(static_cast<size_t>(kRows) * bytes);
    for (int64_t r = 0; r < kRows; ++r) {
      const Row row = stored(drawn(random, width_, 1));
      std::copy(row.stored.begin(), row.stored.end(),
                table_.begin() + static_cast<int64_t>(r * static_cast<int64_t>(bytes)));
      rows_.push_back(row.values);
    }
    offsets_ = {0};
    for (int64_t bag = 0; bag < kBags; ++bag) {
      for (int64_t i = 0; i < bag % 4; ++i) {
        ids_.push_back(static_cast<int64_t>(random() % kRows));
        weights_.push_back(static_cast<float>(ids_.size() % 7) - 2.5f);
      }
      offsets_.push_back(static_cast<int64_t>(ids_.size()));
      scale_.push_back(0.5f + static_cast<float>(bag % 3));
    }
    pooled_.assign(static_cast<size_t>(kBags * (width_ + kGap)), -1);
  }

  Int8Bags bags(bool scaled, bool weighted = false) {
    Int8Bags bags;
    bags.rows = table_.data();
    bags.row_bytes = int8_row_bytes(width_);
    bags.ids = ids_.data();
    bags.offsets = offsets_.data();
    bags.bags = kBags;
    bags.scale = scaled ? scale_.data() : nullptr;
    bags.pooled = {pooled_.data(), kBags, width_, width_ + kGap};
    if (weighted) bags.weights = weights_.data();
    return bags;
  }
  void expect_sums(bool scaled, bool weighted = false) {
    for (int64_t bag = 0; bag < kBags; ++bag) {
      for (int64_t c = 0; c < width_; ++c) {
        double sum = 0;
        for (int64_t k = offsets_[static_cast<size_t>(bag)];
             k < offsets_[static_cast<size_t>(bag + 1)]; ++k) {
          const double value =
              rows_[static_cast<size_t>(ids_[static_cast<size_t>(k)])][static_cast<size_t>(c)];
          sum += value * (weighted ? weights_[static_cast<size_t>(k)] : 1.0f);
        }
        if (scaled) sum *= scale_[static_cast<size_t>(bag)];
        ASSERT_NEAR(pooled_[static_cast<size_t>(bag * (width_ + kGap) + c)], sum, 1e-5);
      }
      for (int64_t c = width_; c < width_ + kGap; ++c) {
        ASSERT_EQ(pooled_[static_cast<size_t>(bag * (width_ + kGap) + c)], -1);
      }
    }
  }

  static constexpr int64_t kRows = 90, kBags = 1500, kGap = 3;
  const int64_t width_ = GetParam();
  std::vector<std::byte> table_;
  std::vector<std::vector<float>> rows_;
  std::vector<int64_t> ids_, offsets_;
  std::vector<float> scale_, pooled_, weights_;
};

TEST_P(Int8Bagged, SumsAndMeansOnAnyNumberOfThreads) {
  for (const bool scaled : {false, true}) {
    for (const int threads : {1, 3}) {
      const Int8Bags all = bags(scaled);
      pool_int8_bags({&all, 1}, threads);
      expect_sums(scaled);
    }
  }
}

TEST_P(Int8Bagged, SumsOfWeightedRows) {
  const Int8Bags all = bags(false, true);
  pool_int8_bags({&all, 1}, 2);
  expect_sums(false, true);
}

TEST_P(Int8Bagged, TheLargestElementOfEachColumn) {
  Int8Bags all = bags(false);
  all.max = true;
  pool_int8_bags({&all, 1}, 2);
  for (int64_t bag = 0; bag < kBags; ++bag) {
    const auto b = static_cast<size_t>(bag);
    for (int64_t c = 0; c < width_; ++c) {
      float largest = offsets_[b] == offsets_[b + 1] ? 0 : -1e30f;
      for (int64_t k = offsets_[b]; k < offsets_[b + 1]; ++k) {
        const auto id = static_cast<size_t>(ids_[static_cast<size_t>(k)]);
        largest = std::max(largest, rows_[id][static_cast<size_t>(c)]);
      }
      ASSERT_EQ(pooled_[static_cast<size_t>(bag * (width_ + kGap) + c)], largest);
    }
  }
}

TEST_P(Int8Bagged, EveryInstructionSetGivesTheSameBits) {
  const Int8Bags all = bags(true);
  std::vector<PoolInt8Bags> sets = {pool_int8_bags_avx2()};
  if (vector_isa() >= Isa::kAvx512) sets.push_back(pool_int8_bags_avx512());
  sets[0](all, 0, kBags);
  const std::vector<float> first = pooled_;
  for (const PoolInt8Bags pool : sets) {
    pool(all, 0, kBags);
    EXPECT_EQ(pooled_, first);
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, Int8Bagged, ::testing::Values(1, 6, 16, 33, 128));

}  // namespace
}  // namespace dlrm::serve
