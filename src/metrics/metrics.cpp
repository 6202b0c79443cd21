#include "dlrm/metrics/metrics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ranking.h"

namespace dlrm {
namespace {

constexpr double kClip = 1e-15;
constexpr size_t kBlock = 4096;  // summed separately, so that long sums keep their precision

/// Weighted sums over samples.
struct Sums {
  double weight = 0;
  double loss = 0;
  double probability = 0;
  double label = 0;
  double right = 0;

  void add(const Sums& other) {
    weight += other.weight;
    loss += other.loss;
    probability += other.probability;
    label += other.label;
    right += other.right;
  }
};

float weight_of(const Targets& targets, size_t i) {
  return targets.weighted() ? targets.weights[i] : 1.0f;
}

/// What the check of a rank's samples found.
struct Checked {
  int64_t bad = -1;  ///< the first sample that cannot be evaluated, -1 if all can
  float probability = 0, label = 0, weight = 0;
  bool equal_weights = true;  ///< all are 1
};

Checked check(View<const float> probabilities, const Targets& targets) {
  Checked checked;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    const float p = probabilities[i], y = targets.labels[i], w = weight_of(targets, i);
    if (!(p >= 0 && p <= 1 && std::isfinite(y) && std::isfinite(w) && w >= 0)) {
      return {static_cast<int64_t>(i), p, y, w};
    }
    checked.equal_weights &= w == 1;
  }
  return checked;
}

/// Returns whether all weights are 1 on every rank.
bool check_everywhere(Communicator& comm, View<const float> probabilities, const Targets& targets) {
  const std::vector<Checked> ranks = comm.allgather(check(probabilities, targets));
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].bad < 0) continue;
    throw run_error(
        "evaluation: sample {} of rank {} has probability {}, label {} and weight {}; a "
        "probability lies in [0, 1], a label is finite, a weight is finite and not negative",
        ranks[r].bad, r, ranks[r].probability, ranks[r].label, ranks[r].weight);
  }
  return std::all_of(ranks.begin(), ranks.end(), [](const Checked& c) { return c.equal_weights; });
}

Sums sum_block(View<const float> probabilities, const Targets& targets) {
  Sums sums;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    const double p = probabilities[i];
    const double y = targets.labels[i];
    const double w = weight_of(targets, i);
    const double clipped = std::clamp(p, kClip, 1 - kClip);
    // A label of 0 or 1 contributes one term only, so that 0 times a logarithm is never computed.
    if (y != 0) sums.loss -= w * (y * std::log(clipped));
    if (y != 1) sums.loss -= w * ((1 - y) * std::log1p(-clipped));
    sums.weight += w;
    sums.probability += w * p;
    sums.label += w * y;
    if ((p >= 0.5) == (y >= 0.5)) sums.right += w;
  }
  return sums;
}

Sums sum_all(View<const float> probabilities, const Targets& targets) {
  Sums sums;
  for (size_t begin = 0; begin < probabilities.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, probabilities.size() - begin);
    sums.add(sum_block(probabilities.subspan(begin, count), targets.part(begin, count)));
  }
  return sums;
}

std::optional<Ranking> ranking_of(Communicator& comm, View<const float> probabilities,
                                  const Targets& targets, bool equal_weights) {
  const auto word = [&](size_t i) {
    return score_word(probabilities[i], targets.labels[i] >= 0.5f);
  };
  const size_t count = probabilities.size();
  if (equal_weights) {
    std::vector<ScoreWord> words(count);
    for (size_t i = 0; i < count; ++i) words[i] = word(i);
    return rank_samples(comm, std::move(words));
  }
  std::vector<WeightedWord> words(count);
  for (size_t i = 0; i < count; ++i) words[i] = {word(i), weight_of(targets, i)};
  return rank_samples(comm, std::move(words));
}

}  // namespace

EvalResult evaluate_metrics(Communicator& comm, View<const float> probabilities,
                            const Targets& targets) {
  DLRM_CHECK(probabilities.size() == targets.size(), "{} probabilities, {} labels",
             probabilities.size(), targets.size());
  DLRM_CHECK(!targets.weighted() || targets.weights.size() == targets.size(), "{} weights",
             targets.weights.size());
  const bool equal_weights = check_everywhere(comm, probabilities, targets);

  struct Part {
    Sums sums;
    int64_t samples;
  };
  const Part mine{sum_all(probabilities, targets), static_cast<int64_t>(probabilities.size())};
  Part all{};
  for (const Part& part : comm.allgather(mine)) {
    all.sums.add(part.sums);
    all.samples += part.samples;
  }

  EvalResult result;
  if (const auto ranking = ranking_of(comm, probabilities, targets, equal_weights)) {
    result.auc = ranking->auc;
    result.pr_auc = ranking->average_precision;
  }
  result.samples = all.samples;
  if (all.sums.weight == 0) return result;
  result.log_loss = all.sums.loss / all.sums.weight;
  result.accuracy = all.sums.right / all.sums.weight;
  result.calibration = all.sums.probability / all.sums.label;
  const double mean = all.sums.label / all.sums.weight;
  if (mean > 0 && mean < 1) {
    result.normalised_entropy =
        result.log_loss / -(mean * std::log(mean) + (1 - mean) * std::log1p(-mean));
  }
  return result;
}

}  // namespace dlrm
