#include "score_words.h"

#include <algorithm>
#include <array>
#include <bit>

namespace dlrm {
namespace {

constexpr int kDigitBits = 11;
constexpr int kDigits = 3;  // 33 bits, enough for the 31 of a word
constexpr size_t kBuckets = size_t{1} << kDigitBits;

size_t digit(ScoreWord word, int d) {
  return (static_cast<uint64_t>(word) >> (d * kDigitBits)) & (kBuckets - 1);
}

}  // namespace

ScoreWord score_word(float probability, bool positive) {
  // The sign, which only -0 has, is shifted out.
  return std::bit_cast<uint32_t>(probability) << 1 | static_cast<uint32_t>(positive);
}

void sort_words(std::vector<ScoreWord>& words) {
  std::vector<std::array<size_t, kBuckets>> ends(kDigits);
  for (auto& buckets : ends) buckets.fill(0);
  for (const ScoreWord word : words) {
    for (int d = 0; d < kDigits; ++d) ++ends[static_cast<size_t>(d)][digit(word, d)];
  }
  std::vector<ScoreWord> other(words.size());
  for (int d = 0; d < kDigits; ++d) {
    std::array<size_t, kBuckets>& place = ends[static_cast<size_t>(d)];
    size_t begin = 0;
    for (size_t& count : place) {
      const size_t next = begin + count;
      count = begin;
      begin = next;
    }
    for (const ScoreWord word : words) other[place[digit(word, d)]++] = word;
    words.swap(other);
  }
}

void fold_repeats(std::vector<ScoreWord>& words) {
  size_t out = 0;
  for (size_t i = 0; i < words.size();) {
    const ScoreWord word = words[i];
    size_t end = i + 1;
    while (end < words.size() && words[end] == word) ++end;
    words[out++] = word;
    for (size_t more = end - i - 1; more > 0;) {
      const size_t step = std::min<size_t>(more, kRepeat - 1);
      words[out++] = kRepeat | static_cast<ScoreWord>(step);
      more -= step;
    }
    i = end;
  }
  words.resize(out);
}

void sort_words(std::vector<WeightedWord>& words) {
  std::sort(words.begin(), words.end(), [](const WeightedWord& a, const WeightedWord& b) {
    return a.word < b.word || (a.word == b.word && a.weight < b.weight);
  });
}

void fold_repeats(std::vector<WeightedWord>& words) {
  size_t out = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    if (out > 0 && words[out - 1].word == words[i].word) {
      words[out - 1].weight += words[i].weight;
    } else {
      words[out++] = words[i];
    }
  }
  words.resize(out);
}

}  // namespace dlrm
