#include "metrics/score_words.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

std::vector<ScoreWord> random_words(size_t count, uint32_t below, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<ScoreWord> words(count);
  for (ScoreWord& word : words) word = static_cast<ScoreWord>(generator() % below);
  return words;
}

TEST(SortWords, TheOrderIsThatOfStdSort) {
  for (const uint32_t below : {5u, 70000u, 0x7f000002u}) {
    std::vector<ScoreWord> words = random_words(3001, below, 1);
    std::vector<ScoreWord> expected = words;
    std::sort(expected.begin(), expected.end());
    sort_words(words);
    EXPECT_EQ(words, expected);
  }
}

TEST(FoldRepeats, TheNumberOfRepeatsIsKept) {
  std::vector<ScoreWord> words{3, 3, 3, 4, 9, 9};
  fold_repeats(words);
  EXPECT_EQ(words, (std::vector<ScoreWord>{3, kRepeat | 2, 4, 9, kRepeat | 1}));
}

TEST(FoldRepeats, NoWordsGiveNoWords) {
  std::vector<ScoreWord> words;
  fold_repeats(words);
  EXPECT_TRUE(words.empty());
}

TEST(WordsBelow, FoldedWordsBelowTheScoreAreCounted) {
  std::vector<ScoreWord> words = random_words(500, 120, 2);
  sort_words(words);
  fold_repeats(words);
  for (uint32_t score = 0; score < 62; ++score) {
    int64_t expected = 0;
    while (expected < static_cast<int64_t>(words.size())) {
      const ScoreWord word = words[static_cast<size_t>(expected)];
      if (!is_repeat(word) && score_of(word) >= score) break;
      ++expected;
    }
    EXPECT_EQ(words_below<ScoreWord>(words, score), expected) << score;
  }
}

TEST(ScoreWord, TheOrderIsByProbabilityThenClass) {
  EXPECT_LT(score_word(0.1f, true), score_word(0.2f, false));
  EXPECT_LT(score_word(0.2f, false), score_word(0.2f, true));
  EXPECT_EQ(score_of(score_word(0.2f, false)), score_of(score_word(0.2f, true)));
  EXPECT_LT(score_of(score_word(1.0f, true)), uint32_t{1} << kScoreBits);
  for (const bool positive : {false, true}) {
    EXPECT_EQ(score_word(-0.0f, positive), score_word(0.0f, positive));
  }
}

}  // namespace
}  // namespace dlrm
