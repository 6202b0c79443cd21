#include "nearest_name.h"

#include <algorithm>
#include <numeric>

namespace dlrm {
namespace {

size_t edits_between(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& names) {
  std::string best;
  size_t fewest = 0;
  for (const std::string& other : names) {
    const size_t edits = edits_between(name, other);
    if (!best.empty() && edits >= fewest) continue;
    best = other;
    fewest = edits;
  }
  return best;
}

}  // namespace dlrm
