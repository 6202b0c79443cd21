#pragma once
#include <cstddef>
#include <cstdlib>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace dlrm {

namespace covering {

template <class... Lists, class Visit, size_t... I>
void for_each_choice(const std::tuple<Lists...>& lists, const Visit& visit,
                     std::index_sequence<I...>) {
  const std::vector<size_t> sizes{std::get<I>(lists).size()...};
  size_t all = 1;
  for (const size_t size : sizes) all *= size;
  std::vector<size_t> choice(sizes.size());
  for (size_t number = 0; number < all; ++number) {
    size_t rest = number;
    for (size_t i = sizes.size(); i-- > 0; rest /= sizes[i]) choice[i] = rest % sizes[i];
    visit(choice, std::tuple(std::get<I>(lists)[choice[I]]...));
  }
}

}  // namespace covering

/// Combinations of a value of each list, for ::testing::ValuesIn: a part in which every pair of
/// values of two lists occurs, or all of them if DLRM_TEST_ALL is set.
template <class... Values>
std::vector<std::tuple<Values...>> covering_pairs(const std::vector<Values>&... lists) {
  using Pair = std::tuple<size_t, size_t, size_t, size_t>;  // two lists, and a value of each
  const bool all = std::getenv("DLRM_TEST_ALL") != nullptr;
  std::vector<std::tuple<Values...>> chosen;
  std::vector<std::vector<Pair>> pairs_of;
  std::vector<std::tuple<Values...>> combinations;
  covering::for_each_choice(
      std::tuple(lists...),
      [&](const std::vector<size_t>& choice, const std::tuple<Values...>& values) {
        combinations.push_back(values);
        auto& pairs = pairs_of.emplace_back();
        for (size_t i = 0; i < choice.size(); ++i) {
          for (size_t j = i + 1; j < choice.size(); ++j) {
            pairs.emplace_back(i, j, choice[i], choice[j]);
          }
        }
      },
      std::index_sequence_for<Values...>());
  if (all || sizeof...(Values) < 3) return combinations;
  // The combination with most pairs that are not there yet, again and again.
  std::set<Pair> missing;
  for (const auto& pairs : pairs_of) missing.insert(pairs.begin(), pairs.end());
  while (!missing.empty()) {
    size_t best = 0, most = 0;
    for (size_t c = 0; c < pairs_of.size(); ++c) {
      size_t fresh = 0;
      for (const Pair& pair : pairs_of[c]) fresh += missing.count(pair);
      if (fresh > most) best = c, most = fresh;
    }
    for (const Pair& pair : pairs_of[best]) missing.erase(pair);
    chosen.push_back(combinations[best]);
  }
  return chosen;
}

}  // namespace dlrm
