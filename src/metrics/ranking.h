#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "dlrm/comm/communicator.h"

#include "score_words.h"

namespace dlrm {

/// The share of (positive, negative) pairs of all ranks' samples that their scores order rightly,
/// ties counting half; absent where one class is empty. Counted in integers until the last
/// division, so that the same samples give the same bits however they lie on ranks. `words`: one a
/// sample, unsorted; used up. Collective; the same result on every rank.
std::optional<double> area_under_roc(Communicator& comm, std::vector<ScoreWord> words);

}  // namespace dlrm
