#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dlrm {

/// The number of letters to insert, delete, replace, or swap with a neighbour, to turn `a` into
/// `b`.
int edit_distance(std::string_view a, std::string_view b);

/// Returns the element of `known` nearest to `word`, the first if several are equally near, or an
/// empty string if `known` is empty. The distance is the edit distance minus the length of the
/// longest common substring: bach_size finds global_batch_size rather than a short word. Ignores
/// case.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace dlrm
