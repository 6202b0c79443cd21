#pragma once
// Element-by-element kernels. See vec.h for the rules of these files.
#include "cpu/kernels.h"
#include "cpu/vec.h"

namespace dlrm::cpu {
namespace {

template <class T>
inline T* row_of(const Matrix& m, int64_t r) {
  return static_cast<T*>(m.data) + r * m.stride;
}

inline float fp16_to_float(uint16_t bits) {
#if defined(__F16C__)
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
#else
  Float16 value;
  value.bits = bits;
  return static_cast<float>(value);
#endif
}

inline uint16_t float_to_fp16(float value) {
#if defined(__F16C__)
  return static_cast<uint16_t>(_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(value), 0)));
#else
  return Float16(value).bits;
#endif
}

void fp16s_to_floats(const uint16_t* src, float* dst, int64_t n) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(load_raw<__m128i>(src + i)));
  }
#endif
  for (; i < n; ++i) dst[i] = fp16_to_float(src[i]);
}

void floats_to_fp16s(const float* src, uint16_t* dst, int64_t n) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), 0);
    __builtin_memcpy(dst + i, &halves, sizeof(halves));
  }
#endif
  for (; i < n; ++i) dst[i] = float_to_fp16(src[i]);
}

template <class From, class To>
inline void convert_row(const From* src, To* dst, int64_t n) {
  for_pieces(n, [&]<int N>(int64_t c) { store<N>(dst + c, load<N>(src + c)); });
}

void to_float(DType type, const void* src, float* dst, int64_t n) {
  if (type == DType::kFloat16) return fp16s_to_floats(static_cast<const uint16_t*>(src), dst, n);
  with_type(type, [&]<class T>(T) { convert_row(static_cast<const T*>(src), dst, n); });
}

void from_float(DType type, const float* src, void* dst, int64_t n) {
  if (type == DType::kFloat16) return floats_to_fp16s(src, static_cast<uint16_t*>(dst), n);
  with_type(type, [&]<class T>(T) { convert_row(src, static_cast<T*>(dst), n); });
}

/// Element offsets of row r in a block's source and destination.
inline int64_t src_start(const BlockCopy& b, int64_t r) {
  return (b.src_rows ? b.src_rows[r] : r) * b.src_stride;
}
inline int64_t dst_start(const BlockCopy& b, int64_t r) {
  return (b.dst_rows ? b.dst_rows[r] : r) * b.dst_stride;
}

template <class From, class To>
void copy_rows_of(const BlockCopy& b) {
  for (int64_t r = 0; r < b.rows; ++r) {
    const From* src = static_cast<const From*>(b.src) + src_start(b, r);
    To* dst = static_cast<To*>(b.dst) + dst_start(b, r);
    const float scale = b.scale ? b.scale[r] : 1.0f;
    if (b.accumulate) {
      for_pieces(b.cols, [&]<int N>(int64_t c) {
        store<N>(dst + c, load<N>(dst + c) + load<N>(src + c) * broadcast<N>(scale));
      });
    } else if (b.scale) {
      for_pieces(b.cols, [&]<int N>(int64_t c) {
        store<N>(dst + c, load<N>(src + c) * broadcast<N>(scale));
      });
    } else {
      convert_row(src, dst, b.cols);
    }
  }
}

/// One side is fp16. Converts through fp32, a few elements at a time.
void copy_fp16_rows(const BlockCopy& b) {
  constexpr int64_t kPiece = 256;
  alignas(64) float x[kPiece];
  alignas(64) float y[kPiece];
  const int64_t src_size = bytes_of(b.src_type), dst_size = bytes_of(b.dst_type);
  for (int64_t r = 0; r < b.rows; ++r) {
    const float scale = b.scale ? b.scale[r] : 1.0f;
    for (int64_t c = 0; c < b.cols; c += kPiece) {
      const int64_t n = smaller(kPiece, b.cols - c);
      char* to = static_cast<char*>(b.dst) + (dst_start(b, r) + c) * dst_size;
      to_float(b.src_type, static_cast<const char*>(b.src) + (src_start(b, r) + c) * src_size, x,
               n);
      for (int64_t i = 0; i < n; ++i) x[i] *= scale;
      if (b.accumulate) {
        to_float(b.dst_type, to, y, n);
        for (int64_t i = 0; i < n; ++i) x[i] = y[i] + x[i];
      }
      from_float(b.dst_type, x, to, n);
    }
  }
}

void copy_rows(const BlockCopy& b) {
  if (b.src_type == DType::kFloat16 || b.dst_type == DType::kFloat16) return copy_fp16_rows(b);
  with_type(b.src_type, [&]<class From>(From) {
    with_type(b.dst_type, [&]<class To>(To) { copy_rows_of<From, To>(b); });
  });
}

/// A NaN stays NaN, so that a diverged model is noticed.
void relu(const Matrix& y, int64_t r0, int64_t r1) {
  with_type(y.type, [&]<class T>(T) {
    for (int64_t r = r0; r < r1; ++r) {
      T* row = row_of<T>(y, r);
      for_pieces(y.cols, [&]<int N>(int64_t c) {
        const Floats<N> v = load<N>(row + c);
        store<N>(row + c, v < 0.0f ? Floats<N>{} : v);
      });
    }
  });
}

void relu_backward(const Matrix& y, const Matrix& dy, int64_t r0, int64_t r1) {
  with_type(y.type, [&]<class T>(T) {
    with_type(dy.type, [&]<class D>(D) {
      for (int64_t r = r0; r < r1; ++r) {
        const T* from = row_of<T>(y, r);
        D* to = row_of<D>(dy, r);
        for_pieces(dy.cols, [&]<int N>(int64_t c) {
          const Floats<N> active = load<N>(from + c);
          const Floats<N> d = load<N>(to + c);
          store<N>(to + c, active == 0.0f ? Floats<N>{} : d);
        });
      }
    });
  });
}

void add(const Matrix& x, const Matrix& y, int64_t r0, int64_t r1) {
  with_type(x.type, [&]<class X>(X) {
    with_type(y.type, [&]<class Y>(Y) {
      for (int64_t r = r0; r < r1; ++r) {
        const X* from = row_of<X>(x, r);
        Y* to = row_of<Y>(y, r);
        for_pieces(y.cols, [&]<int N>(int64_t c) {
          store<N>(to + c, load<N>(to + c) + load<N>(from + c));
        });
      }
    });
  });
}

void add_row_sums(const Matrix& x, const Matrix& y, int64_t r0, int64_t r1) {
  with_type(x.type, [&]<class X>(X) {
    with_type(y.type, [&]<class Y>(Y) {
      for (int64_t r = r0; r < r1; ++r) {
        const X* from = row_of<X>(x, r);
        Y* to = row_of<Y>(y, r);
        float sum = load<1>(to);
        for (int64_t c = 0; c < x.cols; ++c) sum += load<1>(from + c);
        store<1>(to, sum);
      }
    });
  });
}

void repeat_column(const Matrix& x, const Matrix& y, int64_t r0, int64_t r1) {
  with_type(x.type, [&]<class X>(X) {
    with_type(y.type, [&]<class Y>(Y) {
      for (int64_t r = r0; r < r1; ++r) {
        const float value = load<1>(row_of<X>(x, r));
        Y* to = row_of<Y>(y, r);
        for (int64_t c = 0; c < y.cols; ++c) store<1>(to + c, value);
      }
    });
  });
}

bool all_finite(const Matrix& x, int64_t r0, int64_t r1) {
  uint32_t largest = 0;
  with_type(x.type, [&]<class T>(T) {
    for (int64_t r = r0; r < r1; ++r) {
      const T* row = row_of<T>(x, r);
      for (int64_t c = 0; c < x.cols; ++c) {
        const uint32_t magnitude = bits_as<uint32_t>(load<1>(row + c)) & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
      }
    }
  });
  return largest < 0x7f800000u;
}

void cross_forward(const CrossForward& o, int64_t r0, int64_t r1) {
  with_type(o.y.type, [&]<class T>(T) {
    for (int64_t r = r0; r < r1; ++r) {
      const T *a = row_of<T>(o.x0, r), *t = row_of<T>(o.t, r);
      T* out = row_of<T>(o.y, r);
      for_pieces(o.y.cols, [&]<int N>(int64_t i) {
        const Floats<N> x0 = load<N>(a + i);
        store<N>(out + i, multiply_add<N>(x0, load<N>(t + i), x0));
      });
    }
  });
}

void cross_backward(const CrossBackward& o, int64_t r0, int64_t r1) {
  with_type(o.dy.type, [&]<class T>(T) {
    for (int64_t r = r0; r < r1; ++r) {
      const T *a = row_of<T>(o.x0, r), *g = row_of<T>(o.dy, r);
      T* to = row_of<T>(o.du, r);
      for_pieces(o.dy.cols,
                 [&]<int N>(int64_t i) { store<N>(to + i, load<N>(a + i) * load<N>(g + i)); });
    }
  });
}

template <class T, int N>
inline void cross_input_gradients(const CrossInputBackward& o, int64_t r, int64_t c) {
  const int64_t b = o.dz.rows, layers = o.layers();
  const auto above = [&](int64_t l) {  // the gradient of the output of layer l
    return load<N>((l + 1 < layers ? row_of<T>(o.dy, l * b + r) : row_of<T>(o.dz, r)) + c);
  };
  const auto gate = [&](int64_t l) { return load<N>(row_of<T>(o.t, l * b + r) + c); };
  const Floats<N> first = above(0);
  Floats<N> below = gate(0);
  Floats<N> sum = multiply_add<N>(below, first, first);
  for (int64_t l = 1; l < layers; ++l) {
    const Floats<N> here = gate(l);
    sum = multiply_add<N>(here - below, above(l), sum);
    below = here;
  }
  store<N>(row_of<T>(o.du, r) + c, load<N>(row_of<T>(o.x0, r) + c) * first);
  store<N>(row_of<T>(o.sum, r) + c, sum);
}

void cross_input_backward(const CrossInputBackward& o, int64_t r0, int64_t r1) {
  with_type(o.dz.type, [&]<class T>(T) {
    for (int64_t r = r0; r < r1; ++r) {
      for_pieces(o.dz.cols, [&]<int N>(int64_t c) { cross_input_gradients<T, N>(o, r, c); });
    }
  });
}

template <class T, int N>
inline void sum_columns(const Matrix& x, int64_t c, float* sums) {
  Block<N> total{};
  for (int64_t r = 0; r < x.rows; r += kSumChunk) {
    Block<N> chunk{};
    const int64_t end = smaller(x.rows, r + kSumChunk);
    for (int64_t i = r; i < end; ++i) chunk.plus(Block<N>::from(row_of<T>(x, i) + c));
    total.plus(chunk);
  }
  total.to(sums + c);
}

void column_sums(const Matrix& x, int64_t c0, int64_t c1, float* sums) {
  with_type(x.type, [&]<class T>(T) {
    for_blocks(c1 - c0, [&]<int N>(int64_t c) { sum_columns<T, N>(x, c0 + c, sums); });
  });
}

void one_output(const Matrix& x, const void* w, float bias, Activation act, const Matrix& y,
                int64_t r0, int64_t r1) {
  with_type(x.type, [&]<class T>(T) {
    const T* weights = static_cast<const T*>(w);
    for (int64_t r = r0; r < r1; ++r) {
      const T* row = row_of<T>(x, r);
      constexpr int L = kLanes;
      Floats<L> a{}, b{};
      int64_t c = 0;
      for (; c + 2 * L <= x.cols; c += 2 * L) {
        a = multiply_add<L>(load<L>(row + c), load<L>(weights + c), a);
        b = multiply_add<L>(load<L>(row + c + L), load<L>(weights + c + L), b);
      }
      float tail = bias;
      for (; c < x.cols; ++c) {
        tail = multiply_add<1>(load<1>(row + c), load<1>(weights + c), tail);
      }
      const float sum = lane_sum<L>(a + b) + tail;
      store<1>(row_of<T>(y, r), act == Activation::kRelu && sum < 0 ? 0.0f : sum);
    }
  });
}

}  // namespace
}  // namespace dlrm::cpu
