#include "dlrm/core/nearest.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include <fmt/format.h>

namespace dlrm {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

namespace {

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

int longest_common_run(std::string_view a, std::string_view b) {
  std::vector<int> run(b.size() + 1);  // length of the common run that ends at a[i], b[j - 1]
  int longest = 0;
  for (const char c : a) {
    for (size_t j = b.size(); j > 0; --j) {
      run[j] = c == b[j - 1] ? run[j - 1] + 1 : 0;
      longest = std::max(longest, run[j]);
    }
  }
  return longest;
}

bool contains(std::string_view a, std::string_view b) { return a.find(b) != std::string::npos; }

/// The first names, and how many others there are.
std::string list_of(const std::vector<std::string>& names) {
  constexpr size_t kMost = 30;
  if (names.empty()) return "there are none";
  const size_t shown = std::min(names.size(), kMost);
  std::string text = shown == 1 ? "there is only " : "there are ";
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  if (names.size() > shown) text += fmt::format(" and {} others", names.size() - shown);
  return text;
}

}  // namespace

std::string hint_for(std::string_view word, const std::vector<std::string>& known,
                     const std::string& section) {
  constexpr size_t kLongest = 64;  // the cost is quadratic
  const std::string wanted = lower_case(word.substr(0, kLongest));
  const std::string* best = nullptr;
  int best_distance = std::numeric_limits<int>::max();
  for (const std::string& name : known) {
    const std::string candidate = lower_case(std::string_view(name).substr(0, kLongest));
    const int edits = edit_distance(wanted, candidate);
    const bool alike = contains(wanted, candidate) || contains(candidate, wanted) ||
                       2 * edits <= static_cast<int>(std::max(wanted.size(), candidate.size()));
    const int distance = edits - longest_common_run(wanted, candidate);
    if (!alike || distance >= best_distance) continue;
    best = &name;
    best_distance = distance;
  }
  return best != nullptr ? "the nearest is " + section + *best : list_of(known);
}

}  // namespace dlrm
