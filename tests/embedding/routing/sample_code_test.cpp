#include "dlrm/wire/sample_code.h"

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlrm {
namespace {

using ::testing::ElementsAre;
using Numbers = std::vector<int32_t>;

/// A copy of exactly `bytes` bytes, so that AddressSanitizer finds reads past them.
std::unique_ptr<char[]> exactly(const char* bytes, size_t count) {
  auto copy = std::make_unique<char[]>(count);
  std::copy_n(bytes, count, copy.get());
  return copy;
}

std::vector<char> coded(const Numbers& numbers, int64_t samples) {
  std::vector<char> code(
      static_cast<size_t>(SampleCode(samples, static_cast<int64_t>(numbers.size())).bytes()), 'x');
  write_samples(numbers, samples, code.data());
  return code;
}

/// The numbers that are visited, and whether the code is sound.
std::pair<bool, Numbers> read(const std::vector<char>& code, int64_t samples, int64_t ids) {
  const auto bytes = exactly(code.data(), code.size());
  Numbers numbers;
  const bool sound =
      read_samples(bytes.get(), samples, ids, [&](int32_t number) { numbers.push_back(number); });
  return {sound, numbers};
}

Numbers random_numbers(int64_t samples, int64_t ids, std::mt19937& random) {
  Numbers numbers;
  for (int64_t k = 0; k < ids; ++k) {
    numbers.push_back(
        std::uniform_int_distribution<int32_t>(0, static_cast<int32_t>(samples) - 1)(random));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

TEST(SampleCode, NumbersAreReadAsTheyWereWritten) {
  std::mt19937 random(3);
  for (const int64_t samples : {1, 2, 3, 8, 63, 64, 65, 1000, 70000}) {
    for (const int64_t ids : {0, 1, 2, 5, 57, 64, 333, 5000}) {
      for (int trial = 0; trial < 4; ++trial) {
        const Numbers numbers = random_numbers(samples, ids, random);
        ASSERT_EQ(read(coded(numbers, samples), samples, ids), std::pair(true, numbers))
            << ids << " ids of " << samples << " samples";
      }
    }
  }
}

TEST(SampleCode, ABagWithoutIdsTakesAtMostOneBit) {
  for (const int64_t samples : {1, 8, 100, 4096}) {
    for (const int64_t ids : {1, 3, 100, 5000}) {
      EXPECT_LE(SampleCode(samples, ids).bytes(), (samples + ids + 7) / 8);
    }
  }
  EXPECT_EQ(SampleCode(1 << 20, 1).bytes(), 3);  // 20 low bits and a 1
  EXPECT_EQ(SampleCode(1 << 20, 0).bytes(), 0);
}

TEST(SampleCode, BitsAreInTheDocumentedOrder) {
  // Low bits 01, 10 and 10 of 1, 6 and 6. Then bits 0 + 0, 1 + 1 and 1 + 2 for the high parts.
  EXPECT_EQ(SampleCode(14, 3).low_bits, 2);
  EXPECT_THAT(coded({1, 6, 6}, 14), ElementsAre(0b01101001, 0b00000011));
}

TEST(SampleCode, EveryChangedByteIsFoundOrGivesOtherNumbersInOrder) {
  std::mt19937 random(5);
  for (const auto& [samples, ids] : {std::pair{20, 3}, {5, 9}, {1000, 70}}) {
    const std::vector<char> code = coded(random_numbers(samples, ids, random), samples);
    for (size_t at = 0; at < code.size(); ++at) {
      for (int value = 0; value < 256; ++value) {
        std::vector<char> damaged = code;
        damaged[at] = static_cast<char>(value);
        const auto [sound, numbers] = read(damaged, samples, ids);
        EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
        EXPECT_TRUE(numbers.empty() || (numbers.front() >= 0 && numbers.back() < samples));
        EXPECT_TRUE(!sound || numbers.size() == static_cast<size_t>(ids));
      }
    }
  }
}

TEST(SampleCode, MissingNumbersAreFound) {
  EXPECT_FALSE(read({0, 0}, 10, 3).first);
  EXPECT_FALSE(read({0b00000011, 0}, 5, 5).first);
}

}  // namespace
}  // namespace dlrm
