#include <algorithm>
#include <tuple>
#include <vector>

#include "dlrm/core/error.h"
#include "dlrm/core/hash.h"
#include "dlrm/metrics/metrics.h"

#include "score_words.h"

namespace dlrm {
namespace {

struct Sample {
  int64_t group;
  ScoreWord word;
  float weight;

  bool operator<(const Sample& other) const {
    return std::tie(group, word, weight) < std::tie(other.group, other.word, other.weight);
  }
};

/// The samples of all ranks whose groups belong to this rank.
std::vector<Sample> own_groups(Communicator& comm, View<const int64_t> groups,
                               View<const float> probabilities, const Targets& targets) {
  const auto ranks = static_cast<size_t>(comm.size());
  const auto owner_of = [&](int64_t group) {
    return static_cast<size_t>(mix64(static_cast<uint64_t>(group)) % ranks);
  };
  std::vector<int64_t> send(ranks), receive(ranks);
  for (const int64_t group : groups) {
    if (group >= 0) send[owner_of(group)] += static_cast<int64_t>(sizeof(Sample));
  }
  std::vector<size_t> at(ranks);
  for (size_t r = 1; r < ranks; ++r) {
    at[r] = at[r - 1] + static_cast<size_t>(send[r - 1]) / sizeof(Sample);
  }
  std::vector<Sample> samples(at.back() + static_cast<size_t>(send.back()) / sizeof(Sample));
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] < 0) continue;
    samples[at[owner_of(groups[i])]++] = {groups[i],
                                          score_word(probabilities[i], targets.labels[i] >= 0.5f),
                                          targets.weighted() ? targets.weights[i] : 1.0f};
  }
  const std::vector<int64_t> each(ranks, sizeof(int64_t));
  comm.alltoallv(send.data(), receive.data(), ExchangeLayout::packed(each, each));
  int64_t bytes = 0;
  for (const int64_t part : receive) bytes += part;
  std::vector<Sample> own(static_cast<size_t>(bytes) / sizeof(Sample));
  comm.alltoallv(samples.data(), own.data(), ExchangeLayout::packed(send, receive));
  return own;
}

/// The pairs of a group.
class Pairs {
 public:
  /// Samples come in the order of their scores.
  void add(const Sample& sample) {
    if (score_of(sample.word) != score_) end_score();
    score_ = score_of(sample.word);
    (is_positive(sample.word) ? tied_positives_ : tied_negatives_) += sample.weight;
  }
  double weight() const { return positives_ + negatives_; }
  /// None if one class has no weight. All samples have been added.
  std::optional<double> auc() {
    end_score();
    if (positives_ == 0 || negatives_ == 0) return std::nullopt;
    return ordered_ / (positives_ * negatives_);
  }

 private:
  void end_score() {
    ordered_ += tied_positives_ * (negatives_ + tied_negatives_ / 2);
    positives_ += tied_positives_;
    negatives_ += tied_negatives_;
    tied_positives_ = tied_negatives_ = 0;
  }

  uint32_t score_ = 0;
  double positives_ = 0, negatives_ = 0, tied_positives_ = 0, tied_negatives_ = 0, ordered_ = 0;
};

}  // namespace

std::optional<double> grouped_auc(Communicator& comm, View<const int64_t> groups,
                                  View<const float> probabilities, const Targets& targets) {
  DLRM_CHECK(groups.size() == targets.size() && groups.size() == probabilities.size());
  std::vector<Sample> samples = own_groups(comm, groups, probabilities, targets);
  std::sort(samples.begin(), samples.end());
  double sums[2] = {0, 0};  // of AUC times weight, and of weights
  for (size_t begin = 0; begin < samples.size();) {
    Pairs pairs;
    size_t end = begin;
    while (end < samples.size() && samples[end].group == samples[begin].group) {
      pairs.add(samples[end++]);
    }
    if (const auto auc = pairs.auc()) {
      sums[0] += *auc * pairs.weight();
      sums[1] += pairs.weight();
    }
    begin = end;
  }
  comm.allreduce<double>(sums);
  if (sums[1] == 0) return std::nullopt;
  return sums[0] / sums[1];
}

}  // namespace dlrm
