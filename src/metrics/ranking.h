#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "dlrm/comm/communicator.h"

#include "score_words.h"

namespace dlrm {

/// How well scores order the samples of all ranks.
struct Ranking {
  double auc = 0;                ///< share of (positive, negative) pairs in order; ties count half
  double average_precision = 0;  ///< see EvalResult::pr_auc
};

/// None if one class is empty. The AUC is counted in integers until the last division, so the same
/// samples give the same bits for any distribution over ranks; the average precision is added in
/// fp64. `words` holds one word per sample, unsorted, and is consumed. Collective; the same result
/// on every rank.
std::optional<Ranking> rank_samples(Communicator& comm, std::vector<ScoreWord> words);

/// The same with a weight for each sample: a pair counts as often as the product of its weights,
/// added in fp64. None if one class has no weight.
std::optional<Ranking> rank_samples(Communicator& comm, std::vector<WeightedWord> words);

}  // namespace dlrm
