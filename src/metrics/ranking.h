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

}  // namespace dlrm
