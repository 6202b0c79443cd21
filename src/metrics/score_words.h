#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/core/view.h"

namespace dlrm {

/// A sample as one word: the bits of its probability (in [0, 1], so below 2^30), then its class.
/// Words have the order of probabilities. If the top bit is set, the word is a count: how many more
/// times the preceding word occurs.
using ScoreWord = uint32_t;

constexpr ScoreWord kRepeat = 0x80000000u;
constexpr int kScoreBits = 30;

constexpr uint32_t score_of(ScoreWord word) { return word >> 1; }
constexpr bool is_positive(ScoreWord word) { return (word & 1u) != 0; }
constexpr bool is_repeat(ScoreWord word) { return (word & kRepeat) != 0; }

/// Samples of one word, and the sum of their weights.
struct WeightedWord {
  ScoreWord word = 0;
  double weight = 0;
};

constexpr uint32_t score_of(const WeightedWord& weighted) { return score_of(weighted.word); }
constexpr bool is_positive(const WeightedWord& weighted) { return is_positive(weighted.word); }
constexpr bool is_repeat(const WeightedWord&) { return false; }

/// `probability` in [0, 1]; -0 counts as 0.
ScoreWord score_word(float probability, bool positive);

/// Sorts words without repeats by radix, in O(n), with one more buffer of the same size.
void sort_words(std::vector<ScoreWord>& words);
/// Sorts by word and then by weight, so that sums do not depend on the order of the samples.
void sort_words(std::vector<WeightedWord>& words);

/// Replaces runs of equal sorted words by one word and the number of repeats. The result is never
/// longer.
void fold_repeats(std::vector<ScoreWord>& words);
/// Replaces runs of equal sorted words by one with the sum of their weights.
void fold_repeats(std::vector<WeightedWord>& words);

/// The number of folded sorted words that precede the first word whose score is at least `score`.
template <class Word>
int64_t words_below(View<const Word> words, uint32_t score) {
  size_t low = 0, high = words.size();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    size_t head = middle;
    while (is_repeat(words[head])) --head;
    if (score_of(words[head]) < score) {
      low = middle + 1;
    } else {
      high = head;
    }
  }
  return static_cast<int64_t>(low);
}

}  // namespace dlrm
