#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dlrm {

/// Letters to insert, delete, replace or swap with a neighbour to make `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

/// The nearest of `known`, or the first of several; empty if `known` is empty. The measure is the
/// edit distance minus the length of the longest common run of letters: bach_size finds
/// global_batch_size rather than a short word. Case is ignored.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace dlrm
