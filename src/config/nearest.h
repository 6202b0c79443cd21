#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace dlrm {

/// Letters to insert, delete, replace or swap with a neighbour to make `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

/// The nearest of `known` by edit distance, the first of equals; empty where there are none.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace dlrm
