#include <algorithm>
#include <cmath>

#include "reference/elements.h"
#include "reference/reference_ops.h"

namespace dlrm::reference {

void ReferenceOps::run(const CopyBlocks& o) {
  for (const BlockCopy& b : o.blocks) {
    const int64_t rows = copied_rows(b);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t from = b.src_rows ? b.src_rows[r] : r;
      const int64_t to = b.dst_rows ? b.dst_rows[r] : r;
      for (int64_t c = 0; c < b.cols; ++c) {
        double value = load(b.src, b.src_type, from * b.src_stride + c);
        if (b.scale) value *= b.scale[r];
        if (b.accumulate) value += load(b.dst, b.dst_type, to * b.dst_stride + c);
        store(b.dst, b.dst_type, to * b.dst_stride + c, value);
      }
    }
  }
}

void ReferenceOps::run(const Convert& o) {
  const auto& [x, y] = o;
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t c = 0; c < y.cols; ++c) set(y, r, c, get(x, r, c));
  }
}

void ReferenceOps::run(const Add& o) {
  const auto& [x, y] = o;
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t c = 0; c < y.cols; ++c) set(y, r, c, get(y, r, c) + get(x, r, c));
  }
}

void ReferenceOps::run(const AddRowSums& o) {
  for (int64_t r = 0; r < o.y.rows; ++r) {
    double sum = get(o.y, r, 0);
    for (int64_t c = 0; c < o.x.cols; ++c) sum += get(o.x, r, c);
    set(o.y, r, 0, sum);
  }
}

void ReferenceOps::run(const RepeatColumn& o) {
  for (int64_t r = 0; r < o.y.rows; ++r) {
    for (int64_t c = 0; c < o.y.cols; ++c) set(o.y, r, c, get(o.x, r, 0));
  }
}

void ReferenceOps::run(const FillZero& o) { std::fill(o.bytes.begin(), o.bytes.end(), char{0}); }

void ReferenceOps::run(const FindNonFinite& o) {
  const auto& [x, bad] = o;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) {
      if (!std::isfinite(get(x, r, c))) bad[0] = 1;
    }
  }
}

}  // namespace dlrm::reference

namespace dlrm {

std::unique_ptr<Ops> make_reference_ops(Device&, Stream&) {
  return std::make_unique<reference::ReferenceOps>();
}

}  // namespace dlrm
