#include "covering.h"

#include <gtest/gtest.h>

namespace dlrm {
namespace {

const std::vector<int> kNumbers = {1, 2, 3, 4, 5};
const std::vector<char> kLetters = {'a', 'b', 'c'};
const std::vector<bool> kFlags = {false, true};
const std::vector<int> kOne = {7};

TEST(CoveringPairs, HaveEveryPairOfValues) {
  std::set<std::pair<int, char>> numbers_letters;
  std::set<std::pair<int, bool>> numbers_flags;
  std::set<std::pair<char, bool>> letters_flags;
  for (const auto& [number, letter, flag, one] : covering_pairs(kNumbers, kLetters, kFlags, kOne)) {
    EXPECT_EQ(one, 7);
    numbers_letters.emplace(number, letter);
    numbers_flags.emplace(number, flag);
    letters_flags.emplace(letter, flag);
  }
  EXPECT_EQ(numbers_letters.size(), 15u);
  EXPECT_EQ(numbers_flags.size(), 10u);
  EXPECT_EQ(letters_flags.size(), 6u);
}

}  // namespace
}  // namespace dlrm
