#include "checked/row_copies.h"

#include <algorithm>

namespace dlrm::checked {
namespace {

/// A dense parameter as a table of one row.
RowTable as_table(const DenseTensor& t) {
  RowTable table;
  table.weights = t.values.data();
  table.width = static_cast<int64_t>(t.values.size());
  table.state1 = t.state1.data();
  table.state2 = t.state2.data();
  return table;
}

/// State array `which` as a matrix. It has no columns if the rule has no such state.
Matrix state(const OptimizerStep& step, const RowTable& table, int which) {
  const OptimizerTraits& traits = traits_of(step.rule);
  float* data = which == 0 ? table.state1 : table.state2;
  const int64_t width = traits.rowwise() ? 1 : table.width;
  const bool kept = data && which < traits.state_count();
  return {data, DType::kFloat32, table.rows, kept ? width : 0, table.state_stride};
}

Copy in_fp32(const Copy& m) {
  Copy wide = Copy::empty_like(m.matrix(), DType::kFloat32);
  for (int64_t r = 0; r < m.matrix().rows; ++r) {
    for (int64_t c = 0; c < m.matrix().cols; ++c) reference::set(wide.matrix(), r, c, m.at(r, c));
  }
  return wide;
}

}  // namespace

RowCopies::RowCopies(HostImage& host, const OptimizerStep& step, const RowTable& table,
                     std::vector<int64_t> rows)
    : table_(table),
      rows_(std::move(rows)),
      weights_(in_fp32(
          host.rows({table.weights, table.type, table.rows, table.width, table.stride}, rows_))),
      state1_(host.rows(state(step, table, 0), rows_)),
      state2_(host.rows(state(step, table, 1), rows_)),
      grads_(count(), table.width, DType::kFloat32) {}

void RowCopies::update(Ops& reference, const OptimizerStep& step, MatrixView<const float> grads,
                       View<const float> square_sums, int64_t full_width) {
  const int64_t first = 0, one = 1;
  for (int64_t i = 0; i < count(); ++i) {
    std::copy_n(grads.row(i), grads.cols, grads_.floats().row(i));
    RowTable row;
    row.weights = weights_.floats().row(i);
    row.width = table_.width;
    row.l2 = table_.l2;
    row.clip_norm = table_.clip_norm;
    row.state1 = state1_.matrix().cols > 0 ? state1_.floats().row(i) : nullptr;
    row.state2 = state2_.matrix().cols > 0 ? state2_.floats().row(i) : nullptr;
    const View<const float> square =
        square_sums.empty() ? square_sums : square_sums.subspan(static_cast<size_t>(i), 1);
    reference.sparse_update(step, row, {&first, 1}, {&one, 1}, grads_.floats().row_range(i, 1),
                            square, full_width);
  }
}

void RowCopies::update_dense(Ops& reference, const OptimizerStep& step,
                             View<const float> gradient) {
  const auto all = [](Copy& copy) {
    return View<float>(copy.floats().data, static_cast<size_t>(copy.matrix().cols));
  };
  std::copy(gradient.begin(), gradient.end(), grads_.floats().data);
  reference.dense_update(step, all(weights_), gradient, all(state1_), all(state2_), {});
}

void RowCopies::compare(const Subject& subject, const OptimizerStep& step, const RowCopies& after,
                        const RowCopies& before) const {
  // A first moment may cancel. Its error is then relative to the learning rate instead of the
  // change.
  const bool has_moment = (traits_of(step.rule).constants & kBeta1) != 0;
  const double least = has_moment ? 1e-5 * step.lr : 0.0;
  for (int64_t i = 0; i < count(); ++i) {
    for (int64_t c = 0; c < table_.width; ++c) {
      const double have = after.weights_.at(i, c), want = weights_.at(i, c);
      const double old = before.weights_.at(i, c);
      const double allowed = rounding(table_.type, std::max(std::abs(want), std::abs(old))) +
                             1e-5 * std::abs(want - old) + least;
      if (agree(have, want, allowed)) continue;
      disagree(subject, fmt::format("weight ({}, {})", rows_[static_cast<size_t>(i)], c), have,
               want);
    }
  }
  compare_state(subject, "state 1", after.state1_, state1_, before.state1_);
  compare_state(subject, "state 2", after.state2_, state2_, before.state2_);
}

void RowCopies::compare_state(const Subject& subject, const char* what, const Copy& have,
                              const Copy& want, const Copy& before) const {
  for (int64_t i = 0; i < count(); ++i) {
    for (int64_t c = 0; c < want.matrix().cols; ++c) {
      const double scale = std::abs(want.at(i, c)) + std::abs(before.at(i, c)) +
                           std::abs(grads_.at(i, std::min(c, grads_.matrix().cols - 1)));
      if (agree(have.at(i, c), want.at(i, c), 0x1p-18 * scale)) continue;
      disagree(subject, fmt::format("{} ({}, {})", what, rows_[static_cast<size_t>(i)], c),
               have.at(i, c), want.at(i, c));
    }
  }
}

TensorUpdate::TensorUpdate(HostImage& host, const OptimizerStep& step, const DenseTensor& tensor)
    : host_(host),
      step_(step),
      tensor_(tensor),
      copy_(host.of(tensor.copy)),
      before_(host, step, as_table(tensor), {0}),
      want_(before_) {}

void TensorUpdate::compare(const Subject& subject, Ops& reference, View<const float> gradient) {
  want_.update_dense(reference, step_, gradient);
  want_.compare(subject, step_, RowCopies(host_, step_, as_table(tensor_), {0}), before_);
  const std::vector<float> values = host_.of(tensor_.values);
  const std::vector<BFloat16> got = host_.of(tensor_.copy);
  for (size_t i = 0; i < got.size(); ++i) {
    const BFloat16 rounded = skips_update(step_) ? copy_[i] : BFloat16(values[i]);
    if (got[i].bits == rounded.bits) continue;
    disagree(subject, fmt::format("bf16 copy {}", i), static_cast<float>(got[i]),
             static_cast<float>(rounded));
  }
}

}  // namespace dlrm::checked
