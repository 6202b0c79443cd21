#include <algorithm>
#include <cmath>

#include "dlrm/core/random.h"

#include "reference/elements.h"
#include "reference/reference_ops.h"

namespace dlrm::reference {
namespace {

/// Returns the new weight. Updates s1 and s2 if the rule has them. Row-wise Adagrad's state belongs
/// to a row and is already updated.
double updated(const OptimizerStep& step, double w, double g, float* s1, float* s2) {
  const double lr = step.lr;
  const double eps = step.eps;
  switch (step.rule) {
    case OptimizerRule::kSgd:
      return w - lr * g;
    case OptimizerRule::kAdagrad: {
      const double s = *s1 + g * g;
      *s1 = static_cast<float>(s);
      return w - lr * g / (std::sqrt(s) + eps);
    }
    case OptimizerRule::kRowwiseAdagrad:
      return w - lr * g / (std::sqrt(double{*s1}) + eps);
    case OptimizerRule::kAdam: {
      const double b1 = step.beta1, b2 = step.beta2;
      const double m = b1 * *s1 + (1 - b1) * g;
      const double v = b2 * *s2 + (1 - b2) * g * g;
      *s1 = static_cast<float>(m);
      *s2 = static_cast<float>(v);
      return w - lr * (m / step.correction1) / (std::sqrt(v / step.correction2) + eps);
    }
    case OptimizerRule::kFtrl: {
      const double l1 = step.l1, n = *s2 + g * g;
      const double q = (step.beta + std::sqrt(n)) / std::max(lr, 1e-20) + step.l2;
      const double z = w != 0 ? g - q * w - std::copysign(l1, w) : *s1 + g;
      *s1 = static_cast<float>(z);
      *s2 = static_cast<float>(n);
      return std::abs(z) <= l1 ? 0 : (std::copysign(l1, z) - z) / q;
    }
    case OptimizerRule::kLamb:
      break;  // direction
  }
  return w;
}

/// The weight decay of a dense parameter, before the step. LAMB has its own.
void decay(const OptimizerStep& step, double& w, double& g) {
  if (step.rule == OptimizerRule::kAdam) {
    w *= 1 - double{step.lr} * step.weight_decay;
  } else {
    g += step.weight_decay * w;
  }
}

/// The direction of a step of LAMB, the only tensorwise rule. s1 and s2 are updated.
double direction(const OptimizerStep& step, double w, double g, float* s1, float* s2) {
  const double b1 = step.beta1, b2 = step.beta2;
  const double m = b1 * *s1 + (1 - b1) * g;
  const double v = b2 * *s2 + (1 - b2) * g * g;
  *s1 = static_cast<float>(m);
  *s2 = static_cast<float>(v);
  return (m / step.correction1) / (std::sqrt(v / step.correction2) + step.eps) +
         step.weight_decay * w;
}

/// LAMB's factor of the direction, from the norms of the weights and the direction.
double tensor_factor(double w_norm, double r_norm) {
  return w_norm > 0 && r_norm > 0 ? w_norm / r_norm : 1;
}

/// Weight (row, c) after an update, rounded as RowTable describes.
void store_updated(const OptimizerStep& step, const RowTable& table, int64_t row, int64_t c,
                   double value) {
  const int64_t at = row * table.stride + c;
  if (table.type != DType::kBFloat16) return store(table.weights, table.type, at, value);
  static_cast<BFloat16*>(table.weights)[at] = round_stochastically(
      static_cast<float>(value),
      rounding_bits(table.rounding_key, static_cast<uint64_t>(table.number_of(row)),
                    table.first_column + c, step.step));
}

void check_finite(const OptimizerStep& step, double w, const float* s1, const float* s2) {
  const bool finite = std::isfinite(static_cast<float>(w)) && (!s1 || std::isfinite(*s1)) &&
                      (!s2 || std::isfinite(*s2));
  if (!finite) raise_not_finite(step);
}

/// The gradient of a row with its penalty.
std::vector<double> penalised(const RowTable& table, int64_t row, const float* g, int64_t width) {
  std::vector<double> p(g, g + width);
  if (table.l2 == 0) return p;
  for (int64_t c = 0; c < width; ++c) {
    p[static_cast<size_t>(c)] += table.l2 * load(table.weights, table.type, row * table.stride + c);
  }
  return p;
}

double square_sum(const std::vector<double>& p) {
  double sum = 0;
  for (const double x : p) sum += x * x;
  return sum;
}

}  // namespace

void ReferenceOps::run(const RowSquareSums& o) {
  for (size_t i = 0; i < static_cast<size_t>(o.count[0]); ++i) {
    const int64_t row = o.table.l2 != 0 ? o.rows[i] : 0;
    o.sums[i] = static_cast<float>(
        square_sum(penalised(o.table, row, o.grads.row(static_cast<int64_t>(i)), o.grads.cols)));
  }
}

void ReferenceOps::run(const SparseUpdate& o) {
  const auto& [step, table, rows, count, grads, square_sums, full_width] = o;
  if (skips_update(step)) return;
  const bool rowwise = traits_of(step.rule).rowwise();
  for (size_t i = 0; i < static_cast<size_t>(count[0]); ++i) {
    const int64_t row = rows[i];
    std::vector<double> g = penalised(table, row, grads.row(static_cast<int64_t>(i)), table.width);
    double squares = square_sums.empty() ? square_sum(g) : double{square_sums[i]};
    if (table.clip_norm > 0) {
      const double scale = std::min(1.0, table.clip_norm / (std::sqrt(squares) + 1e-6));
      for (double& x : g) x *= scale;
      squares *= scale * scale;
    }
    float* s1 = table.state1 ? table.state1 + row * table.state_stride : nullptr;
    float* s2 = table.state2 ? table.state2 + row * table.state_stride : nullptr;
    if (rowwise) {
      const int64_t columns = square_sums.empty() ? table.width : full_width;
      *s1 = static_cast<float>(*s1 + squares / static_cast<double>(columns));
    }
    for (int64_t c = 0; c < table.width; ++c) {
      const double w = load(table.weights, table.type, row * table.stride + c);
      float* state1 = s1 ? s1 + (rowwise ? 0 : c) : nullptr;
      float* state2 = s2 ? s2 + c : nullptr;
      const double next = updated(step, w, g[static_cast<size_t>(c)], state1, state2);
      store_updated(step, table, row, c, next);
      check_finite(step, next, state1, state2);
    }
  }
}

void ReferenceOps::run(const DenseUpdate& o) {
  const auto& [step, w, g, s1, s2, copy] = o;
  if (skips_update(step)) return;
  const auto of = [](View<float> state, size_t i) { return state.empty() ? nullptr : &state[i]; };
  if (traits_of(step.rule).tensorwise()) {
    std::vector<double> r(w.size());
    double w_squares = 0, r_squares = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      r[i] = direction(step, w[i], g[i], of(s1, i), of(s2, i));
      w_squares += double{w[i]} * w[i];
      r_squares += r[i] * r[i];
    }
    const double factor = tensor_factor(std::sqrt(w_squares), std::sqrt(r_squares));
    for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(w[i] - step.lr * factor * r[i]);
  } else {
    for (size_t i = 0; i < w.size(); ++i) {
      double weight = w[i], gradient = g[i];
      decay(step, weight, gradient);
      w[i] = static_cast<float>(updated(step, weight, gradient, of(s1, i), of(s2, i)));
    }
  }
  for (size_t i = 0; i < w.size(); ++i) check_finite(step, w[i], of(s1, i), of(s2, i));
  for (size_t i = 0; i < copy.size(); ++i) copy[i] = BFloat16(w[i]);
}

void ReferenceOps::run(const ClipNorm& o) {
  const double squares = square_sum({o.g.begin(), o.g.end()});
  const double factor = ClipNorm::factor(squares, o.max_norm);
  for (float& g : o.g) g = static_cast<float>(g * factor);
}

void ReferenceOps::run(const FillRows& o) {
  const auto& [key, first_row, first_column, init, table] = o;
  row_.resize(static_cast<size_t>(table.width));
  for (int64_t r = 0; r < table.rows; ++r) {
    initial_row(init, key, static_cast<uint64_t>(first_row + r), first_column, table.width,
                row_.data());
    for (int64_t c = 0; c < table.width; ++c) {
      store(table.weights, table.type, r * table.stride + c, row_[static_cast<size_t>(c)]);
    }
  }
}

}  // namespace dlrm::reference
