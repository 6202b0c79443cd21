#include "ranking.h"

#include <algorithm>
#include <queue>

#include "dlrm/core/partition.h"

namespace dlrm {
namespace {

constexpr int kPivotDigitBits = 6;
constexpr size_t kPivotBuckets = size_t{1} << kPivotDigitBits;

/// How much a sample counts, and what products of such numbers are added in.
template <class Word>
struct Counting;
template <>
struct Counting<ScoreWord> {
  using Mass = int64_t;
  using Pairs = unsigned __int128;
};
template <>
struct Counting<WeightedWord> {
  using Mass = double;
  using Pairs = double;
};

/// Returns, for each boundary between ranks, the lowest score of the next rank's part. All
/// boundaries are found together, digit by digit from the highest, so that parts have equally many
/// words for any distribution. Equal scores stay on one rank.
template <class Word>
std::vector<uint32_t> choose_pivots(Communicator& comm, View<const Word> words) {
  const auto cuts = static_cast<size_t>(comm.size() - 1);
  int64_t total = static_cast<int64_t>(words.size());
  comm.allreduce<int64_t>(View<int64_t>(&total, 1));

  std::vector<uint32_t> pivots(cuts, 0);
  std::vector<int64_t> below(cuts * kPivotBuckets);
  for (int shift = kScoreBits - kPivotDigitBits; shift >= 0; shift -= kPivotDigitBits) {
    for (size_t c = 0; c < cuts; ++c) {
      for (size_t d = 0; d < kPivotBuckets; ++d) {
        const uint32_t score = pivots[c] | static_cast<uint32_t>(d) << shift;
        below[c * kPivotBuckets + d] = words_below(words, score);
      }
    }
    comm.allreduce<int64_t>(View<int64_t>(below));
    for (size_t c = 0; c < cuts; ++c) {
      const int64_t wanted = part_of(total, static_cast<int64_t>(c), comm.size()).end;
      const int64_t* counts = &below[c * kPivotBuckets];
      // The last score with at most `wanted` words below it. Digit 0 always qualifies.
      const auto above = std::upper_bound(counts + 1, counts + kPivotBuckets, wanted);
      pivots[c] |= static_cast<uint32_t>(above - counts - 1) << shift;
    }
  }
  return pivots;
}

/// Folded words from all ranks, one sorted run per rank.
template <class Word>
struct Runs {
  std::vector<Word> words;
  std::vector<int64_t> begins;  ///< [ranks + 1]
};

template <class Word>
Runs<Word> redistribute(Communicator& comm, View<const Word> words,
                        const std::vector<uint32_t>& pivots) {
  const auto ranks = static_cast<size_t>(comm.size());
  std::vector<int64_t> cuts{0};
  for (const uint32_t pivot : pivots) cuts.push_back(words_below(words, pivot));
  cuts.push_back(static_cast<int64_t>(words.size()));

  std::vector<int64_t> send(ranks), receive(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    send[r] = (cuts[r + 1] - cuts[r]) * static_cast<int64_t>(sizeof(Word));
  }
  const std::vector<int64_t> each(ranks, sizeof(int64_t));
  comm.alltoallv(send.data(), receive.data(), ExchangeLayout::packed(each, each));

  Runs<Word> runs;
  runs.begins.push_back(0);
  for (const int64_t bytes : receive) {
    runs.begins.push_back(runs.begins.back() + bytes / static_cast<int64_t>(sizeof(Word)));
  }
  runs.words.resize(static_cast<size_t>(runs.begins.back()));
  comm.alltoallv(words.data(), runs.words.data(), ExchangeLayout::packed(send, receive));
  return runs;
}

/// Pairs within a range of scores, counted twice so that a tie counts as one.
template <class Word>
struct PairCounts {
  using Mass = typename Counting<Word>::Mass;
  using Pairs = typename Counting<Word>::Pairs;

  Mass positives = 0;
  Mass negatives = 0;
  Pairs doubled = 0;

  /// Adds the counts of a range above all ranges added so far.
  void add_above(const PairCounts& other) {
    doubled +=
        other.doubled + static_cast<Pairs>(other.positives) * 2 * static_cast<Pairs>(negatives);
    positives += other.positives;
    negatives += other.negatives;
  }
};

template <class Word>
PairCounts<Word> tied(typename Counting<Word>::Mass positives,
                      typename Counting<Word>::Mass negatives) {
  using Pairs = typename Counting<Word>::Pairs;
  return {positives, negatives, static_cast<Pairs>(positives) * static_cast<Pairs>(negatives)};
}

/// The samples of each class.
template <class Word>
struct Classes {
  typename Counting<Word>::Mass negatives = 0, positives = 0;

  void add(bool positive, typename Counting<Word>::Mass mass) {
    (positive ? positives : negatives) += mass;
  }
};

Classes<ScoreWord> classes_of(const std::vector<ScoreWord>& words) {
  Classes<ScoreWord> classes;
  bool positive = false;
  for (const ScoreWord word : words) {
    if (!is_repeat(word)) positive = is_positive(word);
    classes.add(positive, is_repeat(word) ? static_cast<int64_t>(word & ~kRepeat) : 1);
  }
  return classes;
}
Classes<WeightedWord> classes_of(const std::vector<WeightedWord>& words) {
  Classes<WeightedWord> classes;
  for (const WeightedWord& word : words) classes.add(is_positive(word), word.weight);
  return classes;
}

/// What a rank counts in its range of scores.
template <class Word>
struct Counts {
  PairCounts<Word> pairs;
  double precision = 0;  ///< Σ over positives of the precision at their scores
};

/// Merges the runs in the order of scores.
template <class Word>
class Merge {
 public:
  explicit Merge(const Runs<Word>& runs)
      : runs_(runs), at_(runs.begins.begin(), runs.begins.end() - 1) {
    for (size_t r = 0; r < at_.size(); ++r) push(r);
  }

  /// `left`: the samples of this rank and of those with higher scores.
  Counts<Word> count(Classes<Word> left) {
    Counts<Word> counts;
    while (!heads_.empty()) {
      const auto score = static_cast<uint32_t>(heads_.top() >> 32);
      Mass of_class[2] = {0, 0};
      while (!heads_.empty() && static_cast<uint32_t>(heads_.top() >> 32) == score) {
        const auto run = static_cast<size_t>(heads_.top() & 0xffffffffu);
        heads_.pop();
        take_score(run, score, of_class);
        push(run);
      }
      counts.pairs.add_above(tied<Word>(of_class[1], of_class[0]));
      if (of_class[1] > 0) {
        counts.precision += static_cast<double>(of_class[1]) * static_cast<double>(left.positives) /
                            static_cast<double>(left.positives + left.negatives);
      }
      left.positives -= of_class[1];
      left.negatives -= of_class[0];
    }
    return counts;
  }

 private:
  using Mass = typename Counting<Word>::Mass;

  void push(size_t run) {
    if (at_[run] == runs_.begins[run + 1]) return;
    const Word& word = runs_.words[static_cast<size_t>(at_[run])];
    heads_.push(static_cast<uint64_t>(score_of(word)) << 32 | run);
  }

  /// Takes all words of this score from the run: at most two classes.
  void take_score(size_t run, uint32_t score, Mass* of_class) {
    int64_t& at = at_[run];
    while (at < runs_.begins[run + 1]) {
      const Word& word = runs_.words[static_cast<size_t>(at)];
      if (score_of(word) != score) return;
      of_class[is_positive(word)] += take(word, at, runs_.begins[run + 1]);
    }
  }

  /// Takes a word and its repeats, before `end`. Returns how many there are.
  int64_t take(ScoreWord, int64_t& at, int64_t end) const {
    int64_t count = 1;
    for (++at; at < end; ++at) {
      const ScoreWord next = runs_.words[static_cast<size_t>(at)];
      if (!is_repeat(next)) break;
      count += static_cast<int64_t>(next & ~kRepeat);
    }
    return count;
  }
  double take(const WeightedWord& word, int64_t& at, int64_t) const {
    ++at;
    return word.weight;
  }

  const Runs<Word>& runs_;
  std::vector<int64_t> at_;
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> heads_;
};

template <class Word>
std::optional<Ranking> rank_words(Communicator& comm, std::vector<Word>& words) {
  using Pairs = typename Counting<Word>::Pairs;
  sort_words(words);
  fold_repeats(words);
  const View<const Word> folded(words);
  const Runs<Word> runs = redistribute(comm, folded, choose_pivots(comm, folded));
  const std::vector<Classes<Word>> parts = comm.allgather(classes_of(runs.words));
  Classes<Word> left;
  for (auto r = static_cast<size_t>(comm.rank()); r < parts.size(); ++r) {
    left.negatives += parts[r].negatives;
    left.positives += parts[r].positives;
  }
  PairCounts<Word> all;
  double precision = 0;
  for (const Counts<Word>& part : comm.allgather(Merge<Word>(runs).count(left))) {
    all.add_above(part.pairs);
    precision += part.precision;
  }
  if (all.positives == 0 || all.negatives == 0) return std::nullopt;
  const Pairs pairs = static_cast<Pairs>(all.positives) * 2 * static_cast<Pairs>(all.negatives);
  return Ranking{static_cast<double>(all.doubled) / static_cast<double>(pairs),
                 precision / static_cast<double>(all.positives)};
}

}  // namespace

std::optional<Ranking> rank_samples(Communicator& comm, std::vector<ScoreWord> words) {
  return rank_words(comm, words);
}

std::optional<Ranking> rank_samples(Communicator& comm, std::vector<WeightedWord> words) {
  return rank_words(comm, words);
}

}  // namespace dlrm
