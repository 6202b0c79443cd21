#pragma once
// Optimizer rules; see vec.h for the rules of these files.
#include "cpu/embedding_body.h"
#include "cpu/kernels.h"
#include "cpu/rounding_body.h"
#include "cpu/vec.h"

namespace dlrm::cpu {
namespace {

using Rule = OptimizerStep::Rule;

/// A step's numbers, and what a row adds to them.
struct Numbers {
  float lr, eps, beta1, beta2, rest1, rest2, inverse1, inverse2;
  float row_rate = 0;  ///< row-wise Adagrad: lr / (√s + eps) of the row

  explicit Numbers(const OptimizerStep& s)
      : lr(s.lr),
        eps(s.eps),
        beta1(s.beta1),
        beta2(s.beta2),
        rest1(1.0f - s.beta1),
        rest2(1.0f - s.beta2),
        inverse1(1.0f / s.correction1),
        inverse2(1.0f / s.correction2) {}
};

template <Rule R, int N>
inline Floats<N> new_weights(const Numbers& n, Floats<N> w, Floats<N> g, float* s1, float* s2) {
  const auto all = [](float x) { return broadcast<N>(x); };
  if constexpr (R == Rule::kSgd) {
    return w - all(n.lr) * g;
  } else if constexpr (R == Rule::kRowwiseAdagrad) {
    return w - all(n.row_rate) * g;
  } else if constexpr (R == Rule::kAdagrad) {
    const Floats<N> s = load<N>(s1) + g * g;
    store<N>(s1, s);
    return w - all(n.lr) * g / (square_root<N>(s) + all(n.eps));
  } else {
    const Floats<N> m = all(n.beta1) * load<N>(s1) + all(n.rest1) * g;
    const Floats<N> v = all(n.beta2) * load<N>(s2) + all(n.rest2) * g * g;
    store<N>(s1, m);
    store<N>(s2, v);
    return w -
           all(n.lr) * (m * all(n.inverse1)) / (square_root<N>(v * all(n.inverse2)) + all(n.eps));
  }
}

template <Rule R, class T>
inline void update_span(const Numbers& n, T* w, const float* g, float* s1, float* s2,
                        int64_t count) {
  for_pieces(count, [&]<int N>(int64_t c) {
    float* first = R == Rule::kAdagrad || R == Rule::kAdam ? s1 + c : nullptr;
    float* second = R == Rule::kAdam ? s2 + c : nullptr;
    store<N>(w + c, new_weights<R, N>(n, load<N>(w + c), load<N>(g + c), first, second));
  });
}

/// The same, bf16 weights rounded by `random`.
template <Rule R>
inline void update_rounded(const Numbers& n, BFloat16* w, const float* g, float* s1, float* s2,
                           const uint16_t* random, int64_t count) {
  for_pieces(count, [&]<int N>(int64_t c) {
    float* first = R == Rule::kAdagrad || R == Rule::kAdam ? s1 + c : nullptr;
    float* second = R == Rule::kAdam ? s2 + c : nullptr;
    store_rounded<N>(w + c, new_weights<R, N>(n, load<N>(w + c), load<N>(g + c), first, second),
                     random + c);
  });
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

/// Listed rows of one table under one rule.
template <Rule R, class T>
struct RowUpdate {
  const RowTable& table;
  Numbers numbers;
  typename RoundingOf<T>::Type rounding;

  RowUpdate(const OptimizerStep& step, const RowTable& rows, const int64_t* list, int64_t end)
      : table(rows), numbers(step), rounding(step, rows, list, end) {}

  T* weights(int64_t row) const { return static_cast<T*>(table.weights) + row * table.stride; }

  int64_t ahead() const { return rows_ahead(table.stride * static_cast<int64_t>(sizeof(T))); }
  void fetch(int64_t row) const {
    prefetch_row(weights(row), table.width * static_cast<int64_t>(sizeof(T)));
    const int64_t bytes = R == Rule::kRowwiseAdagrad ? 4 : table.width * 4;
    if (R != Rule::kSgd) prefetch_row(table.state1 + row * table.state_stride, bytes);
    if (R == Rule::kAdam) prefetch_row(table.state2 + row * table.state_stride, bytes);
  }

  /// Row `row`, the i-th of the list. `mean`: of the squares over the whole row, for row-wise
  /// Adagrad.
  void operator()(int64_t i, int64_t row, const float* g, float mean) {
    float* s1 = R == Rule::kSgd ? nullptr : table.state1 + row * table.state_stride;
    float* s2 = R == Rule::kAdam ? table.state2 + row * table.state_stride : nullptr;
    if constexpr (R == Rule::kRowwiseAdagrad) {
      *s1 += mean;
      numbers.row_rate = numbers.lr / (square_root<1>(*s1) + numbers.eps);
    }
    if constexpr (sizeof(T) == sizeof(float)) {
      update_span<R>(numbers, weights(row), g, s1, s2, table.width);
    } else {
      rounding.of(i, [&](int64_t c0, int64_t c1, const uint16_t* random) {
        float* first = s1 && R != Rule::kRowwiseAdagrad ? s1 + c0 : s1;
        update_rounded<R>(numbers, weights(row) + c0, g + c0, first, s2 ? s2 + c0 : s2, random,
                          c1 - c0);
      });
    }
  }
};

template <Rule R>
inline float mean_square(const float* g, int64_t width) {
  if constexpr (R != Rule::kRowwiseAdagrad) return 0;
  return square_sum(g, width) / static_cast<float>(width);
}

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
    update(i, runs.rows[i], g, mean_square<R>(g, table.width));
  }
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
                    int64_t i0, int64_t i1) {
  RowUpdate<R, T> update(step, table, grads.rows, i1);
  const int64_t ahead = update.ahead();
  for (int64_t i = i0; i < i1; ++i) {
    update.fetch(grads.rows[smaller(i + ahead, i1 - 1)]);
    const int64_t row = grads.rows[i];
    const float* g = grads.grads + (grads.by_row ? row : i) * grads.stride;
    const float mean = grads.square_sums
                           ? grads.square_sums[i] / static_cast<float>(grads.full_width)
                           : mean_square<R>(g, table.width);
    update(i, row, g, mean);
  }
}

/// body.template operator()<R>() with R the rule as a constant.
template <class Body>
inline void with_rule(Rule rule, const Body& body) {
  switch (rule) {
    case Rule::kSgd:
      return body.template operator()<Rule::kSgd>();
    case Rule::kAdagrad:
      return body.template operator()<Rule::kAdagrad>();
    case Rule::kRowwiseAdagrad:
      return body.template operator()<Rule::kRowwiseAdagrad>();
    case Rule::kAdam:
      return body.template operator()<Rule::kAdam>();
  }
}

void fetch_runs(const OptimizerStep& step, const RowTable& table, const Runs& runs, int64_t i0,
                int64_t i1) {
  with_rule(step.rule, [&]<Rule R>() {
    if (table.type == DType::kFloat32) {
      fetch_runs_of<R, float>(step, table, runs, i0, i1);
    } else {
      fetch_runs_of<R, BFloat16>(step, table, runs, i0, i1);
    }
  });
}

void update_runs(const OptimizerStep& step, const RowTable& table, const Runs& runs, int64_t i0,
                 int64_t i1, float* scratch) {
  with_rule(step.rule, [&]<Rule R>() {
    if (table.type == DType::kFloat32) {
      update_runs_of<R, float>(step, table, runs, i0, i1, scratch);
    } else {
      update_runs_of<R, BFloat16>(step, table, runs, i0, i1, scratch);
    }
  });
}

void update_rows(const OptimizerStep& step, const RowTable& table, const RowGradients& grads,
                 int64_t i0, int64_t i1) {
  with_rule(step.rule, [&]<Rule R>() {
    if (table.type == DType::kFloat32) {
      update_rows_of<R, float>(step, table, grads, i0, i1);
    } else {
      update_rows_of<R, BFloat16>(step, table, grads, i0, i1);
    }
  });
}

void update_dense(const OptimizerStep& step, float* w, const float* g, float* s1, float* s2,
                  BFloat16* copy, int64_t n) {
  with_rule(step.rule, [&]<Rule R>() {
    if constexpr (R != Rule::kRowwiseAdagrad) {
      update_span<R>(Numbers(step), w, g, s1, s2, n);
    }
  });
  if (!copy) return;
  for_pieces(n, [&]<int N>(int64_t c) { store<N>(copy + c, load<N>(w + c)); });
}

}  // namespace
}  // namespace dlrm::cpu
