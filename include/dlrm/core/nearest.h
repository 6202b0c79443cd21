#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dlrm {

/// The number of letters to insert, delete, replace, or swap with a neighbour, to turn `a` into
/// `b`.
int edit_distance(std::string_view a, std::string_view b);

/// Says which element of `known` is meant by `word`, or which there are if none is like it: "the
/// nearest is batch", "there are a, b and c". Two words are alike if one contains the other, or if
/// half of the longer one's letters or fewer must change. Of these the first one wins with the
/// least edit distance minus the length of the longest common substring: bach_size finds
/// global_batch_size rather than a short word. Ignores case. `section`: printed before the nearest
/// one.
std::string hint_for(std::string_view word, const std::vector<std::string>& known,
                     const std::string& section = "");

}  // namespace dlrm
