#include "checked/row_copies.h"

#include <algorithm>
#include <numeric>

namespace dlrm::checked {
namespace {

using Rule = OptimizerStep::Rule;

int64_t state_width(const OptimizerStep& step, const RowTable& table, int which) {
  if (step.rule == Rule::kSgd || (which == 2 && step.rule != Rule::kAdam)) return 0;
  return step.rule == Rule::kRowwiseAdagrad ? 1 : table.width;
}

}  // namespace

RowCopies::RowCopies(const OptimizerStep& step, const RowTable& table, View<const int64_t> rows)
    : rows_(rows.begin(), rows.end()),
      weights_(count(), table.width, table.type),
      state1_(count(), state_width(step, table, 1), DType::kFloat32),
      state2_(count(), state_width(step, table, 2), DType::kFloat32),
      grads_(count(), table.width, DType::kFloat32) {
  for (int64_t i = 0; i < count(); ++i) {
    const int64_t row = rows_[static_cast<size_t>(i)];
    for (int64_t c = 0; c < table.width; ++c) {
      reference::set(weights_.matrix(), i, c,
                     reference::load(table.weights, table.type, row * table.stride + c));
    }
    if (state1_.matrix().cols > 0) {
      std::copy_n(table.state1 + row * table.state_stride, state1_.matrix().cols,
                  state1_.floats().row(i));
    }
    if (state2_.matrix().cols > 0) {
      std::copy_n(table.state2 + row * table.state_stride, state2_.matrix().cols,
                  state2_.floats().row(i));
    }
  }
}

void RowCopies::update(Ops& ops, const OptimizerStep& step, MatrixView<const float> grads,
                       bool by_row, View<const float> square_sums, int64_t full_width) {
  for (int64_t i = 0; i < count(); ++i) {
    std::copy_n(grads.row(by_row ? rows_[static_cast<size_t>(i)] : i), grads.cols,
                grads_.floats().row(i));
  }
  RowTable table;
  table.weights = weights_.matrix().data;
  table.type = weights_.matrix().type;
  table.rows = count();
  table.width = table.stride = weights_.matrix().cols;
  if (state1_.matrix().cols > 0) table.state1 = state1_.floats().data;
  if (state2_.matrix().cols > 0) table.state2 = state2_.floats().data;
  table.state_stride = state1_.matrix().cols;
  std::vector<int64_t> all(rows_.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  const int64_t size = count();
  ops.sparse_update(step, table, all, {&size, 1}, grads_.floats(), false, square_sums, full_width);
}

void RowCopies::compare(const Subject& subject, const OptimizerStep& step, const RowTable& table,
                        const RowCopies& before) const {
  // Adam's mean may cancel: its error is then relative to the rate, not to the change.
  const double least = step.rule == Rule::kAdam ? 1e-5 * step.lr : 0.0;
  for (int64_t i = 0; i < count(); ++i) {
    const int64_t row = rows_[static_cast<size_t>(i)];
    for (int64_t c = 0; c < table.width; ++c) {
      const double have = reference::load(table.weights, table.type, row * table.stride + c);
      const double want = weights_.at(i, c), old = before.weights_.at(i, c);
      const double allowed = rounding(table.type, std::max(std::abs(want), std::abs(old))) +
                             1e-5 * std::abs(want - old) + least;
      if (!agree(have, want, allowed)) {
        disagree(subject, fmt::format("weight ({}, {})", row, c), have, want);
      }
    }
  }
  compare_state(subject, "state 1", table.state1, table.state_stride, state1_, before.state1_);
  compare_state(subject, "state 2", table.state2, table.state_stride, state2_, before.state2_);
}

void RowCopies::compare_state(const Subject& subject, const char* what, const float* state,
                              int64_t stride, const Copy& want, const Copy& before) const {
  for (int64_t i = 0; i < count(); ++i) {
    const int64_t row = rows_[static_cast<size_t>(i)];
    for (int64_t c = 0; c < want.matrix().cols; ++c) {
      const double have = state[row * stride + c];
      const double scale = std::abs(want.at(i, c)) + std::abs(before.at(i, c)) +
                           std::abs(grads_.at(i, std::min(c, grads_.matrix().cols - 1)));
      if (!agree(have, want.at(i, c), 0x1p-18 * scale)) {
        disagree(subject, fmt::format("{} ({}, {})", what, row, c), have, want.at(i, c));
      }
    }
  }
}

}  // namespace dlrm::checked
