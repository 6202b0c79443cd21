#pragma once
// Optimizer rules. See vec.h for the rules of these files.
#include "cpu/embedding_body.h"
#include "cpu/kernels.h"
#include "cpu/rounding_body.h"
#include "cpu/vec.h"

namespace dlrm::cpu {
namespace {

using Rule = OptimizerRule;

inline RuleConstants constants_of(const OptimizerStep& s) {
  return {s.lr,
          s.eps,
          s.beta1,
          s.beta2,
          s.beta,
          s.l1,
          s.l2,
          s.weight_decay,
          1.0f - s.beta1,
          1.0f - s.beta2,
          1.0f / s.correction1,
          1.0f / s.correction2,
          static_cast<uint32_t>(s.step)};
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

/// Row-wise rules: the factor of a row's gradient, from the row's state and the mean of the squares
/// of its gradient.
template <Rule R>
inline float row_factor(const RuleConstants& k, float* state, float mean, FiniteCheck& check) {
  static_assert(R == Rule::kRowwiseAdagrad);
  *state += mean;
  check.add<1>(*state);
  return k.lr / (square_root<1>(*state) + k.eps);
}

/// Stores Adam's new moments, the means of g and of g², and returns them.
template <int N>
struct Moments {
  Floats<N> m, v;
};
template <int N>
inline Moments<N> new_moments(const RuleConstants& k, Floats<N> g, float* s1, float* s2,
                              FiniteCheck& check) {
  const auto all = [](float x) { return broadcast<N>(x); };
  const Floats<N> m = all(k.beta1) * load<N>(s1) + all(k.one_minus_beta1) * g;
  const Floats<N> v = all(k.beta2) * load<N>(s2) + all(k.one_minus_beta2) * g * g;
  store<N>(s1, m);
  store<N>(s2, v);
  check.add<N>(v);  // m is finite if the mean of g² is
  return {m, v};
}

/// Tensorwise rules: the new state.
template <Rule R, int N>
inline void new_state(const RuleConstants& k, Floats<N> g, float* s1, float* s2,
                      FiniteCheck& check) {
  static_assert(R == Rule::kLamb);
  new_moments<N>(k, g, s1, s2, check);
}

/// Tensorwise rules: the direction of a step.
template <Rule R, int N>
inline Floats<N> direction(const RuleConstants& k, Floats<N> w, const float* s1, const float* s2) {
  static_assert(R == Rule::kLamb);
  const auto all = [](float x) { return broadcast<N>(x); };
  const Floats<N> m_hat = load<N>(s1) * all(k.bias_correction1);
  const Floats<N> v_hat = load<N>(s2) * all(k.bias_correction2);
  return m_hat / (square_root<N>(v_hat) + all(k.eps)) + all(k.weight_decay) * w;
}

/// Tensorwise rules: the factor of the direction, from the norms of the weights and the direction.
template <Rule R>
inline float factor_of_norms(float w, float r) {
  static_assert(R == Rule::kLamb);
  return w > 0 && r > 0 ? w / r : 1;
}

/// Returns the new weights. Updates s1 and s2 if the rule keeps them per element and is not
/// tensorwise. `factor` is the row's or the tensor's.
/// `check` gets the new states.
template <Rule R, int N>
inline Floats<N> stepped(const RuleConstants& k, Floats<N> w, Floats<N> g, float* s1, float* s2,
                         float factor, FiniteCheck& check) {
  const auto all = [](float x) { return broadcast<N>(x); };
  if constexpr (kTensorwiseRule<R>) {
    return w - all(k.lr * factor) * direction<R, N>(k, w, s1, s2);
  } else if constexpr (R == Rule::kSgd) {
    return w - all(k.lr) * g;
  } else if constexpr (R == Rule::kRowwiseAdagrad) {
    return w - all(factor) * g;
  } else if constexpr (R == Rule::kAdagrad) {
    const Floats<N> s = load<N>(s1) + g * g;
    store<N>(s1, s);
    check.add<N>(s);
    return w - all(k.lr) * g / (square_root<N>(s) + all(k.eps));
  } else if constexpr (R == Rule::kFtrl) {
    const Floats<N> n = load<N>(s2) + g * g, zero{};
    const float lr = k.lr > 1e-20f ? k.lr : 1e-20f;
    const Floats<N> q = (square_root<N>(n) + all(k.beta)) / all(lr) + all(k.l2);
    // While the sign is unchanged, the error is relative to the weight's change, not to q·w.
    const Floats<N> moved = w - g / q;
    const Floats<N> z =
        w != zero ? zero - (moved * q + (w > zero ? all(k.l1) : all(-k.l1))) : load<N>(s1) + g;
    const Floats<N> beyond = z - (z > zero ? all(k.l1) : all(-k.l1));
    const Floats<N> left = z <= all(k.l1) && z >= all(-k.l1) ? zero : zero - beyond / q;
    store<N>(s1, z);
    store<N>(s2, n);
    check.add<N>(z);
    check.add<N>(n);
    return moved * w > zero ? moved : left;
  } else {
    static_assert(R == Rule::kAdam);
    const auto [m, v] = new_moments<N>(k, g, s1, s2, check);
    const Floats<N> m_hat = m * all(k.bias_correction1), v_hat = v * all(k.bias_correction2);
    return w - all(k.lr) * m_hat / (square_root<N>(v_hat) + all(k.eps));
  }
}

/// Like stepped(). `check` gets the new weights too.
template <Rule R, int N>
inline Floats<N> new_weights(const RuleConstants& k, Floats<N> w, Floats<N> g, float* s1, float* s2,
                             float factor, FiniteCheck& check) {
  const Floats<N> next = stepped<R, N>(k, w, g, s1, s2, factor, check);
  check.add<N>(next);
  return next;
}

/// Like new_weights(), of a dense parameter: with the weight decay. The branch leaves the bits of
/// a step without it unchanged.
template <Rule R, int N>
inline Floats<N> new_dense_weights(const RuleConstants& k, Floats<N> w, Floats<N> g, float* s1,
                                   float* s2, float factor, FiniteCheck& check) {
  if (!kTensorwiseRule<R> && k.weight_decay != 0) {
    if constexpr (R == Rule::kAdam) {
      w = broadcast<N>(1.0f - k.lr * k.weight_decay) * w;
    } else {
      g = g + broadcast<N>(k.weight_decay) * w;
    }
  }
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
  RuleConstants constants;
  typename RoundingOf<T>::Type rounding;
  FiniteCheck check;

  RowUpdate(const OptimizerStep& step, const RowTable& rows, const int64_t* list, int64_t end)
      : table(rows), constants(constants_of(step)), rounding(step, rows, list, end) {}

  T* weights(int64_t row) const { return static_cast<T*>(table.weights) + row * table.stride; }

  int64_t ahead() const { return rows_ahead(table.stride * static_cast<int64_t>(sizeof(T))); }
  void fetch(int64_t row) const {
    prefetch_row(weights(row), table.width * static_cast<int64_t>(sizeof(T)));
    const int64_t bytes = (kRowwiseRule<R> ? 1 : table.width) * 4;
    if (kState1<R>) prefetch_row(table.state1 + row * table.state_stride, bytes);
    if (kState2<R>) prefetch_row(table.state2 + row * table.state_stride, bytes);
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
  /// For row-wise rules `mean` is the mean of the gradient's squares over the whole row.
  void apply(int64_t i, int64_t row, const float* g, float mean) {
    float* s1 = kState1<R> ? table.state1 + row * table.state_stride : nullptr;
    float* s2 = kState2<R> ? table.state2 + row * table.state_stride : nullptr;
    float factor = 0;
    if constexpr (kRowwiseRule<R>) factor = row_factor<R>(constants, s1, mean, check);
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
  const int64_t ahead = update.ahead();
  RunReader gradient(runs, i0);
  for (int64_t i = i0; i < i1; ++i) {
    update.fetch(runs.rows[smaller(i + ahead, i1 - 1)]);
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
  const int64_t end = smaller(i0 + update.ahead(), i1);
  for (int64_t i = i0; i < end; ++i) update.fetch(runs.rows[i]);
}

template <Rule R, class T>
void update_rows_of(const OptimizerStep& step, const RowTable& table, const RowGradients& grads,
                    int64_t i0, int64_t i1, float* scratch) {
  RowUpdate<R, T> update(step, table, grads.rows, i1);
  const int64_t ahead = update.ahead();
  for (int64_t i = i0; i < i1; ++i) {
    update.fetch(grads.rows[smaller(i + ahead, i1 - 1)]);
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
      new_state<R, N>(k, load<N>(g + c), s1 + c, s2 + c, check);
      const Floats<N> r = direction<R, N>(k, old, s1 + c, s2 + c);
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
    factor = factor_of_norms<R>(square_root<1>(static_cast<float>(squares[0])),
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
