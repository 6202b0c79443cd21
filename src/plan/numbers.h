#pragma once
#include <concepts>
#include <numeric>
#include <vector>

namespace dlrm {

double real(std::integral auto value) { return static_cast<double>(value); }

inline double sum_of(const std::vector<int64_t>& values) {
  return real(std::accumulate(values.begin(), values.end(), int64_t{0}));
}

}  // namespace dlrm
