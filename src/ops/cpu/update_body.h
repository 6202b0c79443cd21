#pragma once
// Updates by the optimizers' rules. See vec.h for the rules of these files.
#include "dlrm/core/optimizer_rule.h"

#include "cpu/embedding_body.h"
#include "cpu/kernels.h"
#include "cpu/rounding_body.h"
#include "cpu/vec.h"

namespace dlrm::cpu {
namespace {

using Rule = OptimizerRule;

/// The arithmetic of N lanes. See dlrm/core/optimizer_rule.h.
template <int N>
struct LaneMath {
  using Number = Floats<N>;
  static Floats<N> of(float x) { return broadcast<N>(x); }
  static Floats<N> square_root(Floats<N> x) { return cpu::square_root<N>(x); }
};

inline RuleConstants constants_of(const OptimizerStep& s) {
  return rule::constants<LaneMath<1>>(
      s, {s.lr, s.correction1, s.correction2, static_cast<uint32_t>(s.step)});
}

/// Whether all values that an update stores are finite. The values are in registers then, so the
/// check reads no memory. 0·x is 0 for finite x and NaN for others. Loops use a local object, which
/// the compiler keeps in registers.
struct FiniteCheck {
  Floats<kLanes> vectors{};
  float rest = 0;

  template <int N>
  void add(Floats<N> x) {
    if constexpr (N == kLanes) {
      vectors = multiply_add<N>(x, Floats<N>{}, vectors);
    } else {
      rest += lane_sum<N>(x * Floats<N>{});
    }
  }
  void add(const FiniteCheck& other) {
    vectors = vectors + other.vectors;
    rest += other.rest;
  }
  /// Like raise_not_finite(), which vec.h's rule excludes.
  void report(const OptimizerStep& step) const {
    if (!step.not_finite || lane_sum<kLanes>(vectors) + rest == 0) return;
    __atomic_store_n(step.not_finite, 1, __ATOMIC_RELAXED);
  }
};

/// Returns the new weights. Updates s1 and s2 if the rule keeps them per element and is not
/// tensorwise. `factor` is the row's or the tensor's. `check` gets what is new.
template <Rule R, int N>
inline Floats<N> new_weights(const RuleConstants& k, Floats<N> w, Floats<N> g, float* s1, float* s2,
                             float factor, FiniteCheck& check) {
  Floats<N> first{}, second{};
  if constexpr (kElementState1<R>) first = load<N>(s1);
  if constexpr (kElementState2<R>) second = load<N>(s2);
  const Floats<N> next = rule::step<R, LaneMath<N>>(k, w, g, first, second, factor);
  if constexpr (kElementState1<R> && !kTensorwiseRule<R>) {
    store<N>(s1, first);
    check.add<N>(first);
  }
  if constexpr (kElementState2<R> && !kTensorwiseRule<R>) {
    store<N>(s2, second);
    check.add<N>(second);
  }
  check.add<N>(next);
  return next;
}

/// Like new_weights(), of a dense parameter: with the weight decay.
template <Rule R, int N>
inline Floats<N> new_dense_weights(const RuleConstants& k, Floats<N> w, Floats<N> g, float* s1,
                                   float* s2, float factor, FiniteCheck& check) {
  rule::decay<R, LaneMath<N>>(k, w, g);
  return new_weights<R, N>(k, w, g, s1, s2, factor, check);
}

/// The state advanced by `c` elements. Null if there is none.
template <Rule R>
inline float* first_state(float* s1, int64_t c) {
  return kElementState1<R> ? s1 + c : nullptr;
}
template <Rule R>
inline float* second_state(float* s2, int64_t c) {
  return kElementState2<R> ? s2 + c : nullptr;
}

template <Rule R, class T>
inline void update_span(const RuleConstants& k, T* w, const float* g, float* s1, float* s2,
                        float factor, int64_t count, FiniteCheck& check) {
  FiniteCheck mine;
  for_pieces(count, [&]<int N>(int64_t c) {
    store<N>(w + c, new_weights<R, N>(k, load<N>(w + c), load<N>(g + c), first_state<R>(s1, c),
                                      second_state<R>(s2, c), factor, mine));
  });
  check.add(mine);
}

/// Like the function above, for bf16 weights, which are rounded with `random`.
template <Rule R>
inline void update_rounded(const RuleConstants& k, BFloat16* w, const float* g, float* s1,
                           float* s2, float factor, const uint16_t* random, int64_t count,
                           FiniteCheck& check) {
  FiniteCheck mine;
  for_pieces(count, [&]<int N>(int64_t c) {
    store_rounded<N>(w + c,
                     new_weights<R, N>(k, load<N>(w + c), load<N>(g + c), first_state<R>(s1, c),
                                       second_state<R>(s2, c), factor, mine),
                     random + c);
  });
  check.add(mine);
}

float square_sum(const float* g, int64_t n) {
  Floats<kLanes> sum{};
  int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    const Floats<kLanes> x = load<kLanes>(g + c);
    sum = sum + x * x;
  }
  float tail = 0;
  for (; c < n; ++c) tail += g[c] * g[c];
  return lane_sum<kLanes>(sum) + tail;
}

/// out = g + l2·w, for a row of the table.
inline void penalise(const RowTable& table, int64_t row, const float* g, float* out) {
  with_type(table.type, [&]<class T>(T) {
    const T* w = static_cast<const T*>(table.weights) + row * table.stride;
    for_pieces(table.width, [&]<int N>(int64_t c) {
      store<N>(out + c, load<N>(g + c) + broadcast<N>(table.l2) * load<N>(w + c));
    });
  });
}

/// The gradient to which a table's rule is applied, and the sum of its squares over the whole row.
struct AppliedGradient {
  const float* values;
  float squares;
};

/// See RowTable::l2. `sum`: the sum of squares over the whole row with its penalty, or null if the
/// table has all columns.
inline AppliedGradient applied_gradient(const RowTable& table, int64_t row, const float* g,
                                        const float* sum, float* scratch) {
  if (table.l2 != 0) {
    penalise(table, row, g, scratch);
    g = scratch;
  }
  const float squares = sum ? *sum : square_sum(g, table.width);
  const float norm = square_root<1>(squares) + 1e-6f;
  if (!(table.clip_norm > 0) || norm <= table.clip_norm) return {g, squares};
  const float scale = table.clip_norm / norm;
  for_pieces(table.width, [&]<int N>(int64_t c) {
    store<N>(scratch + c, load<N>(g + c) * broadcast<N>(scale));
  });
  return {scratch, squares * scale * scale};
}

/// Updates listed rows of one table with one rule.
template <Rule R, class T>
struct RowUpdate {
  const RowTable& table;
  const int64_t ahead;
  RuleConstants constants;
  typename RoundingOf<T>::Type rounding;
  FiniteCheck check;

  RowUpdate(const OptimizerStep& step, const RowTable& rows, const int64_t* list, int64_t end)
      : table(rows),
        ahead(rows_ahead(rows.stride * static_cast<int64_t>(sizeof(T)))),
        constants(constants_of(step)),
        rounding(step, rows, list, end) {}

  T* weights(int64_t row) const { return static_cast<T*>(table.weights) + row * table.stride; }

  void fetch(int64_t row) const {
    for_parts(row, [](const void* part, int64_t bytes) { prefetch_row(part, bytes); });
  }
  /// Prefetches the rows that are updated after the i-th of `list`, up to the one before `end`. A
  /// second time into the first-level cache, shortly before their use, because stores complete in
  /// order and would wait for a line from further away.
  void fetch_after(const int64_t* list, int64_t i, int64_t end) const {
    fetch_list_after(list + i);
    fetch(list[smaller(i + ahead, end - 1)]);
    for_parts(list[smaller(i + ahead / 8, end - 1)],
              [](const void* part, int64_t bytes) { prefetch_bytes(part, bytes); });
  }

  /// Updates row `row`, the i-th of the list, by its gradient `g`. `sum`: see applied_gradient().
  void by_gradient(int64_t i, int64_t row, const float* g, const float* sum, int64_t full_width,
                   float* scratch) {
    float squares = 0;
    if (table.changes_gradients()) {
      const AppliedGradient applied = applied_gradient(table, row, g, sum, scratch);
      g = applied.values;
      squares = applied.squares;
    } else if constexpr (kRowwiseRule<R>) {
      squares = sum ? *sum : square_sum(g, table.width);
    }
    apply(i, row, g, squares / static_cast<float>(full_width));
  }

 private:
  /// Calls body(address, bytes) for the weights and the state of a row.
  template <class Body>
  void for_parts(int64_t row, const Body& body) const {
    body(weights(row), table.width * static_cast<int64_t>(sizeof(T)));
    const int64_t bytes = (kRowwiseRule<R> ? 1 : table.width) * 4;
    if (kState1<R>) body(table.state1 + row * table.state_stride, bytes);
    if (kState2<R>) body(table.state2 + row * table.state_stride, bytes);
  }

  /// For row-wise rules `mean` is the mean of the gradient's squares over the whole row.
  void apply(int64_t i, int64_t row, const float* g, float mean) {
    float* s1 = kState1<R> ? table.state1 + row * table.state_stride : nullptr;
    float* s2 = kState2<R> ? table.state2 + row * table.state_stride : nullptr;
    float factor = 0;
    if constexpr (kRowwiseRule<R>) {
      factor = rule::row_factor<R, LaneMath<1>>(constants, *s1, mean);
      check.add<1>(*s1);
    }
    if constexpr (sizeof(T) == sizeof(float)) {
      update_span<R>(constants, weights(row), g, s1, s2, factor, table.width, check);
    } else {
      rounding.of(i, [&](int64_t c0, int64_t c1, const uint16_t* random) {
        update_rounded<R>(constants, weights(row) + c0, g + c0, first_state<R>(s1, c0),
                          second_state<R>(s2, c0), factor, random, c1 - c0, check);
      });
    }
  }
};

template <Rule R, class T>
void update_runs_of(const OptimizerStep& step, const RowTable& table, const Runs& runs, int64_t i0,
                    int64_t i1, float* scratch) {
  RowUpdate<R, T> update(step, table, runs.rows, i1);
  RunReader gradient(runs, i0);
  for (int64_t i = i0; i < i1; ++i) {
    update.fetch_after(runs.rows, i, i1);
    fetch_part(runs, runs.starts[i]);
    const float* g = gradient(i, scratch);
    update.by_gradient(i, runs.rows[i], g, nullptr, table.width, scratch + 2 * table.width);
  }
  update.check.report(step);
}

template <Rule R, class T>
void fetch_runs_of(const OptimizerStep& step, const RowTable& table, const Runs& runs, int64_t i0,
                   int64_t i1) {
  const RowUpdate<R, T> update(step, table, runs.rows, i1);
  const int64_t end = smaller(i0 + update.ahead, i1);
  for (int64_t i = i0; i < end; ++i) update.fetch(runs.rows[i]);
}

template <Rule R, class T>
void update_rows_of(const OptimizerStep& step, const RowTable& table, const RowGradients& grads,
                    int64_t i0, int64_t i1, float* scratch) {
  RowUpdate<R, T> update(step, table, grads.rows, i1);
  for (int64_t i = i0; i < i1; ++i) {
    update.fetch_after(grads.rows, i, i1);
    const int64_t row = grads.rows[i];
    const float* g = grads.grads + (grads.by_row ? row : i) * grads.stride;
    const float* sum = grads.square_sums ? grads.square_sums + i : nullptr;
    update.by_gradient(i, row, g, sum, sum ? grads.full_width : table.width, scratch);
  }
  update.check.report(step);
}

void fetch_runs(const OptimizerStep& step, const RowTable& table, const Runs& runs, int64_t i0,
                int64_t i1) {
  with_rule<kSparse>(step.rule, [&]<Rule R>() {
    with_type(table.type, [&]<class T>(T) { fetch_runs_of<R, T>(step, table, runs, i0, i1); });
  });
}

void update_runs(const OptimizerStep& step, const RowTable& table, const Runs& runs, int64_t i0,
                 int64_t i1, float* scratch) {
  with_rule<kSparse>(step.rule, [&]<Rule R>() {
    with_type(table.type,
              [&]<class T>(T) { update_runs_of<R, T>(step, table, runs, i0, i1, scratch); });
  });
}

void update_rows(const OptimizerStep& step, const RowTable& table, const RowGradients& grads,
                 int64_t i0, int64_t i1, float* scratch) {
  with_rule<kSparse>(step.rule, [&]<Rule R>() {
    with_type(table.type,
              [&]<class T>(T) { update_rows_of<R, T>(step, table, grads, i0, i1, scratch); });
  });
}

void row_square_sums(const RowSquareSums& o, int64_t i0, int64_t i1, float* scratch) {
  for (int64_t i = i0; i < i1; ++i) {
    const float* g = o.grads.row(i);
    if (o.table.l2 != 0) {
      penalise(o.table, o.rows.data()[i], g, scratch);
      g = scratch;
    }
    o.sums.data()[i] = square_sum(g, o.grads.cols);
  }
}

void update_state(const OptimizerStep& step, const float* w, const float* g, float* s1, float* s2,
                  int64_t n, double (&squares)[2]) {
  with_rule<kDense | kTensorwise>(step.rule, [&]<Rule R>() {
    const RuleConstants k = constants_of(step);
    Floats<kLanes> sums[2] = {};
    float rest[2] = {};
    FiniteCheck check;
    for_pieces(n, [&]<int N>(int64_t c) {
      const Floats<N> old = load<N>(w + c);
      Floats<N> first = load<N>(s1 + c), second = load<N>(s2 + c);
      rule::moments<LaneMath<N>>(k, load<N>(g + c), first, second);
      store<N>(s1 + c, first);
      store<N>(s2 + c, second);
      check.add<N>(second);  // the first is finite if the mean of g² is
      const Floats<N> r = rule::direction<R, LaneMath<N>>(k, old, first, second);
      if constexpr (N == kLanes) {
        sums[0] = sums[0] + old * old;
        sums[1] = sums[1] + r * r;
      } else {
        rest[0] += lane_sum<N>(old * old);
        rest[1] += lane_sum<N>(r * r);
      }
    });
    check.report(step);
    for (int i = 0; i < 2; ++i) squares[i] = double{lane_sum<kLanes>(sums[i])} + rest[i];
  });
}

float tensor_factor(const OptimizerStep& step, const double (&squares)[2]) {
  float factor = 0;
  with_rule<kDense | kTensorwise>(step.rule, [&]<Rule R>() {
    factor = rule::factor_of_norms<R, LaneMath<1>>(square_root<1>(static_cast<float>(squares[0])),
                                                   square_root<1>(static_cast<float>(squares[1])));
  });
  return factor;
}

void update_dense(const OptimizerStep& step, float factor, float* w, const float* g, float* s1,
                  float* s2, BFloat16* copy, int64_t n) {
  FiniteCheck check;
  with_rule<kDense>(step.rule, [&]<Rule R>() {
    const RuleConstants k = constants_of(step);
    FiniteCheck mine;
    for_pieces(n, [&]<int N>(int64_t c) {
      store<N>(w + c,
               new_dense_weights<R, N>(k, load<N>(w + c), load<N>(g + c), first_state<R>(s1, c),
                                       second_state<R>(s2, c), factor, mine));
    });
    check.add(mine);
  });
  check.report(step);
  if (!copy) return;
  for_pieces(n, [&]<int N>(int64_t c) { store<N>(copy + c, load<N>(w + c)); });
}

}  // namespace
}  // namespace dlrm::cpu
