#include "dlrm/metrics/metrics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ranking.h"

namespace dlrm {
namespace {

constexpr double kClip = 1e-15;
constexpr size_t kBlock = 4096;  // summed separately, so that long sums keep their precision

struct Sums {
  double loss = 0;
  double probability = 0;
  double label = 0;

  void add(const Sums& other) {
    loss += other.loss;
    probability += other.probability;
    label += other.label;
  }
};

/// The first sample that cannot be evaluated, -1 if all can.
struct BadSample {
  int64_t index = -1;
  float probability = 0;
  float label = 0;
};

BadSample find_bad(View<const float> probabilities, View<const float> labels) {
  for (size_t i = 0; i < probabilities.size(); ++i) {
    const bool good = probabilities[i] >= 0 && probabilities[i] <= 1 && std::isfinite(labels[i]);
    if (!good) return {static_cast<int64_t>(i), probabilities[i], labels[i]};
  }
  return {};
}

void check_everywhere(Communicator& comm, View<const float> probabilities,
                      View<const float> labels) {
  const std::vector<BadSample> found = comm.allgather(find_bad(probabilities, labels));
  for (size_t r = 0; r < found.size(); ++r) {
    if (found[r].index < 0) continue;
    throw run_error(
        "evaluation: sample {} of rank {} has probability {} and label {}; a probability lies in "
        "[0, 1] and a label is finite",
        found[r].index, r, found[r].probability, found[r].label);
  }
}

Sums sum_block(View<const float> probabilities, View<const float> labels) {
  Sums sums;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    const double p = probabilities[i];
    const double y = labels[i];
    const double clipped = std::clamp(p, kClip, 1 - kClip);
    // A label of 0 or 1 contributes one term only, so that 0 times a logarithm is never computed.
    if (y != 0) sums.loss -= y * std::log(clipped);
    if (y != 1) sums.loss -= (1 - y) * std::log1p(-clipped);
    sums.probability += p;
    sums.label += y;
  }
  return sums;
}

Sums sum_all(View<const float> probabilities, View<const float> labels) {
  Sums sums;
  for (size_t begin = 0; begin < probabilities.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, probabilities.size() - begin);
    sums.add(sum_block(probabilities.subspan(begin, count), labels.subspan(begin, count)));
  }
  return sums;
}

int64_t count_right(View<const float> probabilities, View<const float> labels) {
  int64_t right = 0;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    right += (probabilities[i] >= 0.5f) == (labels[i] >= 0.5f);
  }
  return right;
}

std::vector<ScoreWord> score_words(View<const float> probabilities, View<const float> labels) {
  std::vector<ScoreWord> words(probabilities.size());
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = score_word(probabilities[i], labels[i] >= 0.5f);
  }
  return words;
}

}  // namespace

EvalResult evaluate_metrics(Communicator& comm, View<const float> probabilities,
                            View<const float> labels) {
  DLRM_CHECK(probabilities.size() == labels.size(), "{} probabilities, {} labels",
             probabilities.size(), labels.size());
  check_everywhere(comm, probabilities, labels);

  struct Part {
    Sums sums;
    int64_t samples;
    int64_t right;
  };
  const Part mine{sum_all(probabilities, labels), static_cast<int64_t>(probabilities.size()),
                  count_right(probabilities, labels)};
  Part all{};
  for (const Part& part : comm.allgather(mine)) {
    all.sums.add(part.sums);
    all.samples += part.samples;
    all.right += part.right;
  }

  EvalResult result;
  result.auc = area_under_roc(comm, score_words(probabilities, labels));
  result.samples = all.samples;
  if (all.samples == 0) return result;
  const auto samples = static_cast<double>(all.samples);
  result.log_loss = all.sums.loss / samples;
  result.accuracy = static_cast<double>(all.right) / samples;
  result.calibration = all.sums.probability / all.sums.label;
  return result;
}

}  // namespace dlrm
