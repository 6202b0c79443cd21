#include "cuda/products.h"

#include "dlrm/device/cuda/runtime.h"

#include "kernels/elementwise.h"
#include "kernels/product.h"

namespace dlrm {
namespace {

constexpr int64_t kAlignment = 16;
constexpr int64_t kRepaid = 64;  // least number of products per copied element

}  // namespace

Products::Products(Device& device, Stream& main, Stream& side, Scratch& scratch,
                   const CudaOpsOptions& options)
    : streams_{&main, &side},
      scratch_(scratch),
      side_scratch_(device),
      tf32_(options.tf32),
      log_(options.log),
      matmul_(cuda::make_matmul(
          device, {.tf32 = options.tf32, .timed_candidates = options.timed_products})) {}

cudaStream_t Products::native(int lane) const { return cuda::native(*streams_[lane]); }

Matrix Products::aligned_copy(const Matrix& m, int64_t other_size, const char* purpose, int lane) {
  const auto size = static_cast<int64_t>(size_of(m.type));
  const bool by_tensor_cores = m.type == DType::kBFloat16 || tf32_;
  const bool fits =
      reinterpret_cast<uintptr_t>(m.data) % kAlignment == 0 && m.stride * size % kAlignment == 0;
  if (fits || !by_tensor_cores || other_size < kRepaid) return m;
  const int64_t step = kAlignment / size;
  const int64_t stride = (m.cols + step - 1) / step * step;
  void* to = scratch(lane).bytes(purpose, static_cast<size_t>(m.rows * stride * size));
  const Matrix copy(to, m.type, m.rows, m.cols, stride);
  kernels::convert(m, copy, native(lane));
  return copy;
}

cuda::Product Products::aligned(cuda::Product p, int lane) {
  p.a = aligned_copy(p.a, p.d.cols, "aligned left", lane);
  p.b = aligned_copy(p.b, p.d.rows, "aligned right", lane);
  return p;
}

bool Products::serves(const cuda::Product& p, int lane) {
  return matmul_->serves(p, *streams_[lane]);
}

bool Products::run_fused(const cuda::Product& p, int lane) {
  if (!serves(p, lane)) return false;
  matmul_->run(p, *streams_[lane]);
  return true;
}

void Products::run(const cuda::Product& p, int lane) {
  if (run_fused(p, lane)) return;
  say_slow(p);
  kernels::product(p.a, p.transpose_a, p.b, p.transpose_b, p.c, p.d, native(lane));
}

void Products::say_slow(const cuda::Product& p) {
  const int64_t inner = p.transpose_a ? p.a.rows : p.a.cols;
  if (!slow_.insert({p.d.rows, p.d.cols, inner}).second) return;
  log_.info(
      "no library takes the product [{} x {}] [{} x {}] ({}, rows {}, {} and {} apart): our "
      "own kernel computes it, slowly",
      p.d.rows, inner, inner, p.d.cols, name_of(p.a.type), p.a.stride, p.b.stride, p.d.stride);
}

}  // namespace dlrm
