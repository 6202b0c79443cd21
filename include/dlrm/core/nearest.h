#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dlrm {

/// Letters to insert, delete, replace or swap with a neighbour to make `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

/// The nearest of `known`, the first of equals; empty where there are none. Nearness is the edit
/// distance less the longest run of letters in common, so that bach_size finds global_batch_size
/// and not a word that is merely short. Upper and lower case are the same.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace dlrm
