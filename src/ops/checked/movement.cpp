#include <algorithm>
#include <cstring>

#include "checked/checked_ops.h"
#include "checked/row_copies.h"

namespace dlrm::checked {
namespace {

const auto kExactly = [](int64_t, int64_t) { return 0.0; };

std::string shape_of(const Matrix& m) {
  return fmt::format("[{} x {}] in {}", m.rows, m.cols, name_of(m.type));
}

bool empty(const BlockCopy& b) { return b.rows <= 0 || b.cols <= 0; }

/// Rows of a side from its first one to the last that the block names.
int64_t rows_of(const BlockCopy& b, const int32_t* list) {
  return list ? *std::max_element(list, list + b.rows) + 1 : b.rows;
}
Matrix source(const BlockCopy& b) {
  const int64_t rows = rows_of(b, b.src_rows);
  return {const_cast<void*>(b.src), b.src_type, rows, b.cols, b.src_stride};
}
Matrix destination(const BlockCopy& b) {
  return {b.dst, b.dst_type, rows_of(b, b.dst_rows), b.cols, b.dst_stride};
}

/// Copies of all memory that blocks write, one stretch for those that overlap.
class Destinations {
 public:
  explicit Destinations(View<const BlockCopy> blocks) {
    for (const BlockCopy& b : blocks) {
      if (empty(b)) continue;
      char* begin = static_cast<char*>(b.dst);
      const int64_t elements = (destination(b).rows - 1) * b.dst_stride + b.cols;
      stretches_.push_back(
          {begin, begin + elements * static_cast<int64_t>(size_of(b.dst_type)), {}});
    }
    std::sort(stretches_.begin(), stretches_.end(),
              [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
    size_t last = 0;
    for (size_t i = 1; i < stretches_.size(); ++i) {
      if (stretches_[i].begin < stretches_[last].end) {
        stretches_[last].end = std::max(stretches_[last].end, stretches_[i].end);
      } else {
        stretches_[++last] = stretches_[i];
      }
    }
    if (!stretches_.empty()) stretches_.resize(last + 1);
    for (Stretch& s : stretches_) s.copy.assign(s.begin, s.end);
  }

  /// Where the copy of `p` is.
  void* aside(void* p) {
    const auto after =
        std::upper_bound(stretches_.begin(), stretches_.end(), static_cast<char*>(p),
                         [](const char* at, const Stretch& s) { return at < s.begin; });
    Stretch& s = *(after - 1);
    return s.copy.data() + (static_cast<char*>(p) - s.begin);
  }

 private:
  struct Stretch {
    char* begin;
    char* end;
    std::vector<char> copy;
  };
  std::vector<Stretch> stretches_;
};

double largest(const Matrix& m) {
  double result = 0;
  for (int64_t r = 0; r < m.rows; ++r) {
    for (int64_t c = 0; c < m.cols; ++c) {
      const double value = std::abs(reference::get(m, r, c));
      if (std::isfinite(value)) result = std::max(result, value);
    }
  }
  return result;
}

}  // namespace

void CheckedOps::copy_blocks(View<const BlockCopy> blocks) {
  Destinations copies(blocks);
  std::vector<BlockCopy> aside(blocks.begin(), blocks.end());
  // What a block wrote may have been added to by later ones: all are compared as sums.
  const bool sums =
      std::any_of(blocks.begin(), blocks.end(), [](const BlockCopy& b) { return b.accumulate; });
  double size = 0;
  for (BlockCopy& b : aside) {
    if (empty(b)) continue;
    if (sums) size = std::max({size, largest(source(b)), largest(destination(b))});
    b.dst = copies.aside(b.dst);
  }
  chosen_->copy_blocks(blocks);
  stream_.synchronize();
  reference_.copy_blocks(aside);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (empty(blocks[i])) continue;
    const Matrix got = destination(blocks[i]);
    const double allowed =
        sums ? static_cast<double>(blocks.size()) * rounding(got.type, size) : 0.0;
    expect_close(
        subject("copy_blocks", fmt::format("block {} of {}, {}", i, blocks.size(), shape_of(got))),
        "dst", got, destination(aside[i]), [=](int64_t, int64_t) { return allowed; });
  }
}

void CheckedOps::convert(Matrix x, Matrix y) {
  chosen_->convert(x, y);
  stream_.synchronize();
  const Copy want = Copy::empty_like(y, y.type);
  reference_.convert(x, want.matrix());
  expect_close(subject("convert", shape_of(y)), "y", y, want.matrix(), kExactly);
}

void CheckedOps::add(Matrix x, Matrix y) {
  const Copy want = Copy::of(y);
  chosen_->add(x, y);
  stream_.synchronize();
  reference_.add(x, want.matrix());
  expect_close(subject("add", shape_of(y)), "y", y, want.matrix(), kExactly);
}

void CheckedOps::fill_zero(void* data, int64_t bytes) {
  chosen_->fill_zero(data, bytes);
  stream_.synchronize();
  const char* begin = static_cast<const char*>(data);
  for (int64_t i = 0; i < bytes; ++i) {
    if (begin[i] == 0) continue;
    disagree(subject("fill_zero", fmt::format("of {} bytes", bytes)), fmt::format("byte {}", i),
             begin[i], 0);
  }
}

void CheckedOps::find_non_finite(Matrix x, View<float> bad) {
  float want = bad[0];
  chosen_->find_non_finite(x, bad);
  stream_.synchronize();
  reference_.find_non_finite(x, {&want, 1});
  if (bad[0] != want) {
    disagree(subject("find_non_finite", shape_of(x)), "the flag", bad[0], want);
  }
}

void CheckedOps::dense_update(const OptimizerStep& step, View<float> w, View<const float> g,
                              View<float> s1, View<float> s2, View<BFloat16> copy) {
  RowTable table;
  table.weights = w.data();
  table.rows = 1;
  table.width = table.stride = table.state_stride = static_cast<int64_t>(w.size());
  table.state1 = s1.data();
  table.state2 = s2.data();
  const int64_t row = 0;
  const RowCopies before(step, table, {&row, 1});
  RowCopies want(step, table, {&row, 1});
  chosen_->dense_update(step, w, g, s1, s2, copy);
  stream_.synchronize();
  want.update(reference_, step, {g.data(), 1, table.width}, false, {}, table.width);
  const Subject s = subject("dense_update", fmt::format("of {}", w.size()));
  want.compare(s, step, table, before);
  for (size_t i = 0; i < copy.size(); ++i) {
    if (copy[i].bits == BFloat16(w[i]).bits) continue;
    disagree(s, fmt::format("bf16 copy {}", i), static_cast<float>(copy[i]),
             static_cast<float>(BFloat16(w[i])));
  }
}

void CheckedOps::fill_uniform(uint64_t key, int64_t first_row, int64_t first_column, float bound,
                              const RowTable& table) {
  chosen_->fill_uniform(key, first_row, first_column, bound, table);
  stream_.synchronize();
  const Copy row(1, table.width, table.type);
  RowTable one = table;
  one.weights = row.matrix().data;
  one.rows = 1;
  const Matrix all(table.weights, table.type, table.rows, table.width, table.stride);
  const Subject s = subject("fill_uniform", shape_of(all));
  for (int64_t r = 0; r < table.rows; ++r) {
    reference_.fill_uniform(key, first_row + r, first_column, bound, one);
    for (int64_t c = 0; c < table.width; ++c) {
      if (reference::get(all, r, c) == row.at(0, c)) continue;
      disagree(s, fmt::format("({}, {})", r, c), reference::get(all, r, c), row.at(0, c));
    }
  }
}

}  // namespace dlrm::checked
