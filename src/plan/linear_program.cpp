#include "linear_program.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace dlrm {
namespace {

constexpr int kMostPivots = 2000;
/// Rounding.
constexpr double kTiny = 1e-9;

}  // namespace

std::vector<double> greatest_worth(std::vector<std::vector<double>> rows,
                                   std::vector<double> worth) {
  const size_t count = worth.size();
  std::vector<size_t> free(count), bound(rows.size());  // variables of columns, and of rows
  for (size_t i = 0; i < count; ++i) free[i] = i;
  for (size_t i = 0; i < rows.size(); ++i) bound[i] = count + i;
  worth.push_back(0);
  for (int pivot = 0; pivot < kMostPivots; ++pivot) {
    const auto column =
        static_cast<size_t>(std::max_element(worth.begin(), worth.end() - 1) - worth.begin());
    if (worth[column] <= kTiny) break;
    size_t least = rows.size();
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i][column] <= kTiny) continue;
      if (least == rows.size() ||
          rows[i][count] * rows[least][column] < rows[least][count] * rows[i][column]) {
        least = i;
      }
    }
    if (least == rows.size()) return {};
    std::vector<double>& of = rows[least];
    const double scale = 1 / of[column];
    for (double& value : of) value *= scale;
    of[column] = scale;
    const auto take = [&](std::vector<double>& from) {
      const double factor = from[column];
      if (factor == 0) return;
      from[column] = 0;
      for (size_t j = 0; j <= count; ++j) from[j] -= factor * of[j];
    };
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i != least) take(rows[i]);
    }
    take(worth);
    std::swap(free[column], bound[least]);
  }
  std::vector<double> x(count, 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (bound[i] < count) x[bound[i]] = std::max(rows[i][count], 0.0);
  }
  return x;
}

}  // namespace dlrm
