#pragma once
#include <optional>
#include <stdexcept>
#include <vector>

#include "fixture.h"

namespace dlrm {

/// Ids of one feature.
struct Bags {
  std::vector<int64_t> ids;
  std::vector<int64_t> offsets = {0};
  std::vector<float> scale;
  std::vector<float> weights;  ///< of the ids; empty: none

  /// Bags of 0 to 2·mean ids below `rows`, including the highest and lowest. If `hot`, half of the
  /// bags contain row 0.
  static Bags random(int64_t bags, int64_t rows, int64_t mean, unsigned seed, bool scaled = false,
                     bool hot = false) {
    Bags b;
    std::mt19937_64 generator(seed);
    for (int64_t i = 0; i < bags; ++i) {
      const auto length = static_cast<int64_t>(generator() % static_cast<uint64_t>(2 * mean + 1));
      for (int64_t k = 0; k < length; ++k) {
        b.ids.push_back(static_cast<int64_t>(generator() % static_cast<uint64_t>(rows)));
      }
      if (hot && i % 2 == 0) b.ids.push_back(0);
      if (i == bags - 1) b.ids.push_back(rows - 1);
      b.offsets.push_back(static_cast<int64_t>(b.ids.size()));
      if (scaled) b.scale.push_back(1.0f / static_cast<float>(i + 2));
    }
    return b;
  }

  /// Gives the ids weights around 0.
  Bags& weigh(unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    for (size_t k = 0; k < ids.size(); ++k) weights.push_back(normal(generator));
    return *this;
  }

  int64_t count() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t nnz() const { return static_cast<int64_t>(ids.size()); }
  View<const int64_t> of(int64_t bag) const {
    const auto b = static_cast<size_t>(bag);
    return View<const int64_t>(ids).subspan(static_cast<size_t>(offsets[b]),
                                            static_cast<size_t>(offsets[b + 1] - offsets[b]));
  }
  const float* id_weights() const { return weights.empty() ? nullptr : weights.data(); }
  IdGroup group() const { return {ids.data(), offsets.data(), count(), nnz(), id_weights()}; }
  BagGroup lookup(const RowTable& table, const Matrix& pooled) const {
    return {table,  ids.data(), offsets.data(), count(), scale.empty() ? nullptr : scale.data(),
            pooled, nnz(),      id_weights()};
  }
};

/// Memory for the segments of `ids` occurrences, with values that no operation may use.
struct RunSpace {
  static constexpr int64_t kUnused = int64_t{1} << 40;
  std::vector<int64_t> rows, starts, count;
  std::vector<Occurrence> occurrences;
  std::vector<float> weights;

  explicit RunSpace(int64_t ids)
      : rows(static_cast<size_t>(ids), kUnused),
        starts(static_cast<size_t>(ids) + 1, kUnused),
        count(1),
        occurrences(static_cast<size_t>(ids), {1 << 30, 1 << 30}) {}
  SegmentedRows runs() { return {rows, starts, occurrences, count}; }
  /// The same with room for weights.
  SegmentedRows weighted_runs() {
    weights.assign(occurrences.size(), 1e30f);
    return {rows, starts, occurrences, count, weights};
  }
};

/// A table with optimizer state.
struct Table {
  Cells weights, state1, state2;

  Table(int64_t rows, int64_t width, DType type, unsigned seed, int64_t spare = 3)
      : weights(Cells::random(rows, width, seed, type, spare)),
        state1(Cells::random(rows, width, seed + 1, DType::kFloat32, spare)),
        state2(Cells::random(rows, width, seed + 2, DType::kFloat32, spare)) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < width; ++c) {
        state1.set(r, c, std::abs(state1.at(r, c)) + 0.1f);
        state2.set(r, c, std::abs(state2.at(r, c)) + 0.1f);
      }
    }
  }

  /// The state of a row-wise rule is the first column of state1.
  RowTable rows(OptimizerRule rule = OptimizerRule::kSgd) {
    RowTable t;
    t.weights = weights.matrix().data;
    t.type = weights.type();
    t.rows = weights.rows();
    t.width = weights.cols();
    t.stride = weights.stride();
    const int states = traits_of(rule).state_count();
    if (states > 0) t.state1 = state1.floats().data;
    if (states > 1) t.state2 = state2.floats().data;
    t.state_stride = state1.stride();
    return t;
  }

  bool same_bits(const Table& other) const {
    return weights.same_bits(other.weights) && state1.same_bits(other.state1) &&
           state2.same_bits(other.state2);
  }
  testing::AssertionResult close_to(const Table& other) const {
    if (auto r = close(weights, other.weights, 3); !r) return r << " (weights)";
    if (auto r = close(state1, other.state1, 30); !r) return r << " (state 1)";
    return close(state2, other.state2, 30);
  }
};

/// Whether `update`, which gets a step of `rule` that asks for it, reports a value that is not
/// finite.
template <class UpdateOnce>
bool reports(OptimizerStep step, const UpdateOnce& update) {
  int not_finite = 0;
  step.not_finite = &not_finite;
  update(step);
  return not_finite != 0;
}

/// The array of `t` whose values decide alone whether a rule's new state is finite.
inline Cells& last_state(Table& t, OptimizerRule rule) {
  return traits_of(rule).state_count() > 1 ? t.state2 : t.state1;
}

/// Step 1 (the second) of each rule that has one of the flags `use`.
inline std::vector<OptimizerStep> every_rule(uint32_t use) {
  std::vector<OptimizerStep> steps;
  for (size_t i = 0; i < std::size(kOptimizers); ++i) {
    if ((kOptimizers[i].use & use) == 0) continue;
    OptimizerConfig config;
    config.type = static_cast<OptimizerRule>(i);
    config.eps = 1e-8;
    config.l1 = 0.3;
    config.l2 = 0.5;
    config.weight_decay = 0.1;
    steps.push_back(optimizer_step(config, 0.05, 1));
  }
  return steps;
}

inline OptimizerStep step_of(OptimizerRule rule) {
  for (const OptimizerStep& step : every_rule(kDense | kSparse)) {
    if (step.rule == rule) return step;
  }
  throw std::logic_error("no such rule");
}

/// Two features of one table. Half of the bags contain the same row.
struct Backward {
  Bags bags[2];
  Cells pooled[2];
  RunSpace space;
  std::vector<BagGradient> gradients;

  Backward(Ops& ops, int64_t count, int64_t rows, int64_t width, int64_t spare = 3)
      : bags{Bags::random(count, rows, 3, 1, false, true), Bags::random(count, rows, 1, 2, true)},
        pooled{Cells::random(count, width, 3, DType::kFloat32, spare),
               Cells::random(count, width, 4, DType::kFloat32, spare)},
        space(bags[0].nnz() + bags[1].nnz()) {
    const IdGroup groups[] = {bags[0].group(), bags[1].group()};
    ops.group_rows(groups, rows, space.runs());
    for (size_t g = 0; g < 2; ++g) {
      gradients.push_back(
          {pooled[g].floats(), bags[g].scale.empty() ? nullptr : bags[g].scale.data()});
    }
  }
  int64_t unique() const { return space.count[0]; }
};

}  // namespace dlrm
