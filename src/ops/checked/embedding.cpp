#include <algorithm>

#include "checked/checked_ops.h"
#include "checked/row_copies.h"

namespace dlrm::checked {
namespace {

/// What the sum of a bag's magnitudes is in column c.
double bag_magnitude(const BagGroup& g, int64_t bag, int64_t c) {
  double sum = 0;
  for (int64_t k = g.offsets[bag]; k < g.offsets[bag + 1]; ++k) {
    sum += std::abs(reference::load(g.table.weights, g.table.type, g.ids[k] * g.table.stride + c));
  }
  return g.scale ? std::abs(double{g.scale[bag]}) * sum : sum;
}

void expect_equal(const Subject& s, const char* what, int64_t i, int64_t got, int64_t expected) {
  if (got == expected) return;
  disagree(s, fmt::format("{} {}", what, i), static_cast<double>(got),
           static_cast<double>(expected));
}

std::string runs_shape(int64_t count, int64_t occurrences, int64_t width) {
  return fmt::format("of {} rows x {} named {} times", count, width, occurrences);
}

}  // namespace

void CheckedOps::embedding_bag_forward(View<const BagGroup> groups) {
  chosen_->embedding_bag_forward(groups);
  stream_.synchronize();
  for (size_t i = 0; i < groups.size(); ++i) {
    const BagGroup& g = groups[i];
    if (g.bags == 0) continue;
    const Copy want(g.bags, g.table.width, DType::kFloat32);
    BagGroup aside = g;
    aside.pooled = want.floats();
    reference_.embedding_bag_forward({&aside, 1});
    expect_close(
        subject("embedding_bag_forward",
                fmt::format("group {} of {}, [{} x {}]", i, groups.size(), g.bags, g.table.width)),
        "pooled", g.pooled, want.matrix(), [&](int64_t r, int64_t c) {
          return summing(g.offsets[r + 1] - g.offsets[r], bag_magnitude(g, r, c));
        });
  }
}

void CheckedOps::group_rows(View<const IdGroup> groups, int64_t rows, RowRuns runs) {
  chosen_->group_rows(groups, rows, runs);
  stream_.synchronize();
  const size_t room = runs.occurrences.size();
  std::vector<int64_t> want_rows(room), starts(room + 1), count(1);
  std::vector<Occurrence> occurrences(room);
  reference_.group_rows(groups, rows, {want_rows, starts, occurrences, count});
  const Subject s =
      subject("group_rows", fmt::format("of {} groups over {} rows", groups.size(), rows));
  expect_equal(s, "count", 0, runs.count[0], count[0]);
  const auto unique = static_cast<size_t>(count[0]);
  for (size_t i = 0; i <= unique; ++i) {
    const auto at = static_cast<int64_t>(i);
    expect_equal(s, "start", at, runs.starts[i], starts[i]);
    if (i < unique) expect_equal(s, "row", at, runs.rows[i], want_rows[i]);
  }
  for (size_t k = 0; k < static_cast<size_t>(starts[unique]); ++k) {
    const auto at = static_cast<int64_t>(k);
    expect_equal(s, "group of occurrence", at, runs.occurrences[k].group, occurrences[k].group);
    expect_equal(s, "bag of occurrence", at, runs.occurrences[k].bag, occurrences[k].bag);
  }
}

void CheckedOps::check_backward(const Subject& subject, const RowRuns& runs,
                                View<const BagGradient> gradients,
                                const MatrixView<const float>& grads) {
  const int64_t count = runs.count[0];
  const Copy want(count, grads.cols, DType::kFloat32), sizes(count, grads.cols, DType::kFloat32);
  reference_.embedding_bag_backward(runs, gradients, want.floats());
  std::vector<Copy> magnitudes;
  std::vector<BagGradient> sized(gradients.begin(), gradients.end());
  for (BagGradient& g : sized) {
    magnitudes.push_back(Copy::magnitude(g.pooled));
    g.pooled = magnitudes.back().floats();
  }
  reference_.embedding_bag_backward(runs, sized, sizes.floats());
  expect_close(subject, "gradient", read_only(grads.row_range(0, count)), want.matrix(),
               [&](int64_t r, int64_t c) {
                 const auto i = static_cast<size_t>(r);
                 return summing(runs.starts[i + 1] - runs.starts[i], sizes.at(r, c));
               });
}

void CheckedOps::embedding_bag_backward(RowRuns runs, View<const BagGradient> gradients,
                                        MatrixView<float> grads) {
  chosen_->embedding_bag_backward(runs, gradients, grads);
  stream_.synchronize();
  const auto count = static_cast<size_t>(runs.count[0]);
  check_backward(
      subject("embedding_bag_backward", runs_shape(runs.count[0], runs.starts[count], grads.cols)),
      runs, gradients, grads);
}

void CheckedOps::row_square_sums(View<const int64_t> count, MatrixView<const float> grads,
                                 View<float> sums) {
  chosen_->row_square_sums(count, grads, sums);
  stream_.synchronize();
  const Copy want(1, count[0], DType::kFloat32);
  const auto n = static_cast<size_t>(count[0]);
  reference_.row_square_sums(count, grads, {want.floats().data, n});
  expect_close(subject("row_square_sums", runs_shape(count[0], count[0], grads.cols)), "sum",
               as_row(sums.first(n)), want.matrix(),
               [&](int64_t, int64_t c) { return summing(grads.cols, want.at(0, c)); });
}

void CheckedOps::sparse_update(const OptimizerStep& step, const RowTable& table,
                               View<const int64_t> rows, View<const int64_t> count,
                               MatrixView<const float> grads, bool by_row,
                               View<const float> square_sums, int64_t full_width) {
  const RowCopies before(step, table, rows.first(static_cast<size_t>(count[0])));
  RowCopies want(step, table, rows.first(static_cast<size_t>(count[0])));
  chosen_->sparse_update(step, table, rows, count, grads, by_row, square_sums, full_width);
  stream_.synchronize();
  want.update(reference_, step, grads, by_row, square_sums, full_width);
  want.compare(subject("sparse_update", runs_shape(count[0], count[0], table.width)), step, table,
               before);
}

/// The fused update has the bits of its two halves, so that each is compared by its own arithmetic:
/// the sums first, then the rule applied to the sums as they came out.
void CheckedOps::embedding_bag_update(const OptimizerStep& step, const RowTable& table,
                                      RowRuns runs, View<const BagGradient> gradients) {
  const auto count = static_cast<size_t>(runs.count[0]);
  const Subject s =
      subject("embedding_bag_update", runs_shape(runs.count[0], runs.starts[count], table.width));
  gradients_.reserve(count * static_cast<size_t>(table.width));
  const MatrixView<float> grads(gradients_.data(), runs.count[0], table.width);
  chosen_->embedding_bag_backward(runs, gradients, grads);
  const RowCopies before(step, table, runs.rows.first(count));
  RowCopies want(step, table, runs.rows.first(count));
  chosen_->embedding_bag_update(step, table, runs, gradients);
  stream_.synchronize();
  check_backward(s, runs, gradients, grads);
  want.update(reference_, step, grads, false, {}, table.width);
  want.compare(s, step, table, before);
}

void CheckedOps::scatter_rows(View<const int64_t> rows, View<const int64_t> count,
                              MatrixView<const float> grads, MatrixView<float> dense,
                              View<float> touched) {
  chosen_->scatter_rows(rows, count, grads, dense, touched);
  stream_.synchronize();
  const Copy want = Copy::empty_like(dense, DType::kFloat32);
  const Copy want_touched = Copy::empty_like(as_row(touched), DType::kFloat32);
  reference_.scatter_rows(rows, count, grads, want.floats(),
                          {want_touched.floats().data, touched.size()});
  const Subject s = subject("scatter_rows", runs_shape(count[0], count[0], dense.cols));
  const auto exactly = [](int64_t, int64_t) { return 0.0; };
  expect_close(s, "dense", dense, want.matrix(), exactly);
  expect_close(s, "touched", as_row(touched), want_touched.matrix(), exactly);
}

void CheckedOps::touched_rows(View<const float> touched, View<int64_t> rows, View<int64_t> count) {
  chosen_->touched_rows(touched, rows, count);
  stream_.synchronize();
  std::vector<int64_t> want(touched.size()), want_count(1);
  reference_.touched_rows(touched, want, want_count);
  const Subject s = subject("touched_rows", fmt::format("of {}", touched.size()));
  expect_equal(s, "count", 0, count[0], want_count[0]);
  for (int64_t i = 0; i < count[0]; ++i) {
    expect_equal(s, "row", i, rows[static_cast<size_t>(i)], want[static_cast<size_t>(i)]);
  }
}

}  // namespace dlrm::checked
