#include <cmath>
#include <cstring>

#include "reference/elements.h"
#include "reference/reference_ops.h"

namespace dlrm::reference {

void ReferenceOps::copy_blocks(View<const BlockCopy> blocks) {
  for (const BlockCopy& b : blocks) {
    for (int64_t r = 0; r < b.rows; ++r) {
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

void ReferenceOps::convert(Matrix x, Matrix y) {
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t c = 0; c < y.cols; ++c) set(y, r, c, get(x, r, c));
  }
}

void ReferenceOps::add(Matrix x, Matrix y) {
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t c = 0; c < y.cols; ++c) set(y, r, c, get(y, r, c) + get(x, r, c));
  }
}

void ReferenceOps::fill_zero(void* data, int64_t bytes) {
  if (bytes > 0) std::memset(data, 0, static_cast<size_t>(bytes));
}

void ReferenceOps::find_non_finite(Matrix x, View<float> bad) {
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
