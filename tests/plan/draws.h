#pragma once
#include <initializer_list>
#include <iterator>
#include <random>

#include "plan_fixtures.h"

namespace dlrm::plan_test {

/// Choices that a seed determines.
class Draws {
 public:
  explicit Draws(unsigned seed) : random_(seed) {}
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return *std::next(values.begin(), static_cast<std::ptrdiff_t>(random_() % values.size()));
  }
  bool one_in(unsigned n) { return random_() % n == 0; }

 private:
  std::mt19937 random_;
};

inline Strategy drawn_strategy(Draws& draw) {
  return draw.one_of({Strategy::kAuto, Strategy::kTable, Strategy::kRow, Strategy::kColumn,
                      Strategy::kGrid, Strategy::kDataParallel});
}

inline std::vector<int64_t> drawn_hotness(Draws& draw) {
  std::vector<int64_t> hotness;
  do hotness.push_back(draw.one_of<int64_t>({1, 1, 2, 7, 40}));
  while (draw.one_in(3));
  return hotness;
}

}  // namespace dlrm::plan_test
