#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "dlrm/comm/communicator.h"

#include "score_words.h"

namespace dlrm {

/// The share of (positive, negative) pairs of all ranks' samples whose scores are in the right
/// order; ties count half. None if one class is empty. Counted in integers until the last division,
/// so the same samples give the same bits for any distribution over ranks. `words` holds one word
/// per sample, unsorted, and is consumed. Collective; the same result on every rank.
std::optional<double> area_under_roc(Communicator& comm, std::vector<ScoreWord> words);

/// The same with a weight for each sample: a pair counts as often as the product of its weights,
/// added in fp64. None if one class has no weight.
std::optional<double> area_under_roc(Communicator& comm, std::vector<WeightedWord> words);

}  // namespace dlrm
