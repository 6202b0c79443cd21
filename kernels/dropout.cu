// y[r, c] = x[r, c]·scale, or 0 if word c mod 4 of Philox(key; sample, c / 4, step) < bound.
// The product is rounded once: bitwise equal to the CPU's. A thread draws one counter, which
// decides on four neighbouring columns. Bytes per element: the element of x and of y. Four elements
// take 10 rounds of 2 wide products, about as long as their way from and to L2. Limit: the
// bandwidth of L2.
#include "kernels/dropout.h"
#include "kernels/philox.cuh"
#include "kernels/rows.cuh"

namespace dlrm::kernels {
namespace {

template <class T>
struct Drop {
  uint64_t key;
  uint32_t bound;
  float scale;
  int64_t first_sample;
  uint32_t step;
  const uint32_t* device_step;
  Rows<const T> x;
  Rows<T> y;
  int64_t cols;
  bool aligned;

  __device__ T kept(T value, uint32_t word) const {
    return from_float<T>(word < bound ? 0.0f : __fmul_rn(to_float(value), scale));
  }

  /// Columns 4·quad to 4·quad + 3 of row r, some of which may not exist.
  __device__ void operator()(int64_t r, int64_t quad) const {
    const auto sample = static_cast<uint64_t>(first_sample + r);
    const PhiloxWords drawn =
        philox(key, static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32),
               static_cast<uint32_t>(quad), device_step ? *device_step : step);
    const int64_t c = 4 * quad;
    const T* from = x.row(r) + c;
    T* to = y.row(r) + c;
    if (aligned && c + 4 <= cols) {
      auto values = load_pack<4>(from);
#pragma unroll
      for (int i = 0; i < 4; ++i) values.at[i] = kept(values.at[i], drawn.word[i]);
      return store_pack(to, values);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (c + i < cols) to[i] = kept(from[i], drawn.word[i]);
    }
  }
};

/// Whether four neighbouring elements from a multiple of four on can be read at once.
bool by_fours(const Matrix& m) {
  return m.stride % 4 == 0 && reinterpret_cast<uintptr_t>(m.data) % (4 * size_of(m.type)) == 0;
}

}  // namespace

void dropout(const Dropout& o, cudaStream_t stream) {
  const DropoutPlace& place = o.place;
  const Extents quads{o.y.rows, blocks_for(o.y.cols, 4)};
  with_type(o.y.type, [&]<class T>() {
    const Drop<T> body{o.key,
                       o.bound(),
                       o.scale(),
                       place.first_sample,
                       place.step,
                       place.device_step.empty() ? nullptr : place.device_step.data(),
                       rows_of<const T>(o.x),
                       rows_of<T>(o.y),
                       o.y.cols,
                       by_fours(o.x) && by_fours(o.y)};
    over_elements(quads, body, stream);
  });
}

}  // namespace dlrm::kernels
