#include <algorithm>
#include <cstring>

#include "checked/checked_ops.h"
#include "checked/row_copies.h"

namespace dlrm::checked {
namespace {

std::string shape_of(const Matrix& m) {
  return fmt::format("[{} x {}] in {}", m.rows, m.cols, name_of(m.type));
}

bool empty(const BlockCopy& b) { return b.rows <= 0 || b.cols <= 0; }

/// A block's scales and row numbers in the host's memory.
struct HostLists {
  std::vector<float> scale;
  std::vector<int32_t> src_rows, dst_rows;

  HostLists(HostImage& host, const BlockCopy& b)
      : scale(host.list(b.scale, b.rows)),
        src_rows(host.list(b.src_rows, b.rows)),
        dst_rows(host.list(b.dst_rows, b.rows)) {}

  int64_t rows(BlockCopy b) const {
    if (b.src_rows) b.src_rows = src_rows.data();
    if (b.dst_rows) b.dst_rows = dst_rows.data();
    return copied_rows(b);
  }
};

/// Rows of a side, from row 0 to the last row in `list`.
int64_t rows_of(const BlockCopy& b, const std::vector<int32_t>& list) {
  return list.empty() ? b.rows : *std::max_element(list.begin(), list.end()) + 1;
}

/// Copies of all memory that blocks write. Overlapping ranges share one copy.
class Destinations {
 public:
  void add(const Matrix& written) {
    char* begin = static_cast<char*>(written.data);
    const int64_t elements = (written.rows - 1) * written.stride + written.cols;
    stretches_.push_back(
        {begin, begin + elements * static_cast<int64_t>(size_of(written.type)), {}});
  }
  void copy(HostImage& host) {
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
    copy_again(host);
  }
  void copy_again(HostImage& host) {
    for (Stretch& s : stretches_) s.copy = host.list(s.begin, s.end - s.begin);
  }

  /// The address in the copy that corresponds to `p`.
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

void CheckedOps::check(const CopyBlocks& o) {
  // Later blocks may add to what a block wrote, so all results are compared as sums.
  const bool sums = std::any_of(o.blocks.begin(), o.blocks.end(),
                                [](const BlockCopy& b) { return b.accumulate; });
  std::vector<BlockCopy> again(o.blocks.begin(), o.blocks.end());
  std::vector<HostLists> lists;
  std::vector<Copy> sources;
  std::vector<Matrix> written;
  Destinations copies;
  double size = 0;
  for (BlockCopy& b : again) {
    const HostLists& list = lists.emplace_back(host_, b);
    b.rows = list.rows(b);
    const int64_t src_rows = empty(b) ? 0 : rows_of(b, list.src_rows);
    const int64_t dst_rows = empty(b) ? 0 : rows_of(b, list.dst_rows);
    written.emplace_back(b.dst, b.dst_type, dst_rows, b.cols, b.dst_stride);
    const Copy& source = sources.emplace_back(
        host_.of(Matrix(const_cast<void*>(b.src), b.src_type, src_rows, b.cols, b.src_stride)));
    if (empty(b)) continue;
    if (sums)
      size = std::max({size, largest(source.matrix()), largest(host_.of(written.back()).matrix())});
    copies.add(written.back());
    b.src = source.matrix().data;
    b.src_stride = b.cols;
    if (b.scale) b.scale = list.scale.data();
    if (b.src_rows) b.src_rows = list.src_rows.data();
    if (b.dst_rows) b.dst_rows = list.dst_rows.data();
  }
  copies.copy(host_);
  for (BlockCopy& b : again) {
    if (!empty(b)) b.dst = copies.aside(b.dst);
  }
  chosen_->run(o);
  reference_.copy_blocks(again);
  for (size_t i = 0; i < o.blocks.size(); ++i) {
    if (empty(again[i])) continue;
    const Matrix& to = written[i];
    const double allowed =
        sums ? static_cast<double>(o.blocks.size()) * rounding(to.type, size) : 0.0;
    expect_close(
        subject("copy_blocks", fmt::format("block {} of {}, {}", i, o.blocks.size(), shape_of(to))),
        "dst", host_.of(to).matrix(), Matrix(again[i].dst, to.type, to.rows, to.cols, to.stride),
        [=](int64_t, int64_t) { return allowed; });
  }
}

void CheckedOps::check(const DenseUpdate& o) {
  const HostStep now(host_, o.step);
  TensorUpdate update(host_, *now, {o.w, o.s1, o.s2, o.copy});
  chosen_->run(o);
  update.compare(subject("dense_update", fmt::format("of {}", o.w.size())), reference_,
                 host_.of(o.g));
}

void CheckedOps::check(const FillRows& o) {
  const auto& [key, first_row, first_column, init, table] = o;
  constexpr int64_t kTogether = 4096;
  chosen_->run(o);
  const Matrix all(table.weights, table.type, table.rows, table.width, table.stride);
  const Subject s = subject("fill_rows", shape_of(all));
  for (int64_t first = 0; first < table.rows; first += kTogether) {
    const Copy got = host_.of(all.row_range(first, std::min(kTogether, table.rows - first)));
    const Copy want = Copy::empty_like(got.matrix(), table.type);
    RowTable part = table;
    part.weights = want.matrix().data;
    part.rows = want.matrix().rows;
    part.stride = want.matrix().cols;
    reference_.fill_rows(key, first_row + first, first_column, init, part);
    for (int64_t r = 0; r < part.rows; ++r) {
      for (int64_t c = 0; c < table.width; ++c) {
        if (got.at(r, c) == want.at(r, c)) continue;
        disagree(s, fmt::format("({}, {})", first + r, c), got.at(r, c), want.at(r, c));
      }
    }
  }
}

}  // namespace dlrm::checked
