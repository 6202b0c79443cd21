#pragma once
// Short vectors of floats for the instruction set that the including file is compiled for.
// Everything in this file and in the *_body.h files is in an unnamed namespace and calls no inline
// function of other headers, only templates with a lambda of its own. Otherwise the linker could
// use code compiled for a newer processor on an older one.
#include <cstdint>
#include <utility>

#include <immintrin.h>

#include "dlrm/core/dtype.h"

namespace dlrm::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif

template <class T, int N>
struct VectorOf {
  typedef T Type __attribute__((vector_size(N * sizeof(T))));
};
template <class T>
struct VectorOf<T, 1> {
  using Type = T;
};
template <int N>
using Floats = typename VectorOf<float, N>::Type;
template <int N>
using Words = typename VectorOf<uint32_t, N>::Type;
template <int N>
using Shorts = typename VectorOf<uint16_t, N>::Type;

/// Calls body(T{}) with T the element type of `type`, fp32 or bf16. No operation computes in fp16.
template <class Body>
inline void with_type(DType type, const Body& body) {
  switch (type) {
    case DType::kFloat32:
      return body(float{});
    case DType::kBFloat16:
      return body(BFloat16{});
    case DType::kFloat16:
      __builtin_trap();
  }
}

inline int64_t bytes_of(DType type) {
  switch (type) {
    case DType::kFloat32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
  }
  __builtin_unreachable();
}

template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

template <class V, class T>
inline V load_raw(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(V));
  return v;
}

template <int N>
inline Floats<N> load(const float* p) {
  return load_raw<Floats<N>>(p);
}

template <int N>
inline Floats<N> load(const BFloat16* p) {
  const auto bits = load_raw<Shorts<N>>(p);
  if constexpr (N == 1) {
    return bits_as<float>(static_cast<uint32_t>(bits) << 16);
  } else {
    return bits_as<Floats<N>>(__builtin_convertvector(bits, Words<N>) << 16);
  }
}

template <int N>
inline void store(float* p, Floats<N> v) {
  __builtin_memcpy(p, &v, sizeof(v));
}

/// Rounds to nearest, ties to even. NaN stays NaN.
template <int N>
inline void store(BFloat16* p, Floats<N> v) {
  const auto u = bits_as<Words<N>>(v);
  const auto rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const auto quiet = (u >> 16) | 0x40u;
  const auto result = (u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded;
  if constexpr (N == 1) {
    p->bits = static_cast<uint16_t>(result);
  } else {
    const auto bits = __builtin_convertvector(result, Shorts<N>);
    __builtin_memcpy(&p->bits, &bits, sizeof(bits));
  }
}

/// Loads the first `n` lanes and sets the others to zero. Reads nothing beyond lane n. 0 < n <
/// kLanes.
inline Floats<kLanes> load_partial(const float* p, int64_t n) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1u), p);
#else
  constexpr Words<kLanes> kLane{0, 1, 2, 3, 4, 5, 6, 7};
  return _mm256_maskload_ps(p, bits_as<__m256i>(kLane < static_cast<uint32_t>(n)));
#endif
}

inline void store_partial(float* p, Floats<kLanes> v, int64_t n) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1u), v);
#else  // in pieces: masked stores are slow on some processors
  float lanes[kLanes];
  store<kLanes>(lanes, v);
  const int64_t begin = n & 4;
  if (begin) store<4>(p, load<4>(lanes));
  for (int64_t i = begin; i < n; ++i) p[i] = lanes[i];
#endif
}

/// Loads one vector. If left < kLanes, only lanes [0, left) are read.
inline Floats<kLanes> load_up_to(const float* p, int64_t left) {
  return left >= kLanes ? load<kLanes>(p) : load_partial(p, left);
}

inline void store_up_to(float* p, Floats<kLanes> v, int64_t left) {
  if (left >= kLanes) return store<kLanes>(p, v);
  store_partial(p, v, left);
}

template <int N>
inline Floats<N> broadcast(float x) {
  if constexpr (N == 1) {
    return x;
  } else {
    return x - Floats<N>{};
  }
}

/// a·b + c, rounded once.
template <int N>
inline Floats<N> multiply_add(Floats<N> a, Floats<N> b, Floats<N> c) {
  if constexpr (N == 1) return __builtin_fmaf(a, b, c);
  if constexpr (N == 4) return _mm_fmadd_ps(a, b, c);
  if constexpr (N == 8) return _mm256_fmadd_ps(a, b, c);
#if defined(__AVX512F__)
  if constexpr (N == 16) return _mm512_fmadd_ps(a, b, c);
#endif
}

template <int N>
inline Floats<N> square_root(Floats<N> a) {
#if defined(__AVX512F__)
  if constexpr (N == 16) return _mm512_maskz_sqrt_ps(static_cast<__mmask16>(-1), a);
#endif
  if constexpr (N == 8) return _mm256_sqrt_ps(a);
  if constexpr (N == 4) return _mm_sqrt_ps(a);
  if constexpr (N == 1) return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(a)));
}

/// Sum of the lanes, by halving.
template <int N>
inline float lane_sum(Floats<N> v) {
  if constexpr (N == 1) {
    return v;
  } else {
    float lanes[N];
    __builtin_memcpy(lanes, &v, sizeof(v));
    if constexpr (N == 4) {
      return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
    } else {
      return lane_sum<N / 2>(load<N / 2>(lanes) + load<N / 2>(lanes + N / 2));
    }
  }
}

/// One level of lane_sums: replaces segments of L lanes of `a` and `b` by segments of L/2 lanes
/// that hold their sums.
template <int L, int N, int... I>
inline Floats<N> fold_pair(Floats<N> a, Floats<N> b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (I % L < L / 2 ? I : N + I - L / 2)...) +
         __builtin_shufflevector(a, b, (I % L < L / 2 ? I + L / 2 : N + I)...);
}

/// Lane k of the result is the sum of the lanes of v[k], k < N. `v` is overwritten.
template <int N, int L = N>
inline Floats<N> lane_sums(Floats<N>* v) {
  for (int i = 0; i < L / 2; ++i) {
    v[i] = fold_pair<L, N>(v[i], v[i + L / 2], std::make_integer_sequence<int, N>());
  }
  if constexpr (L == 2) {
    return v[0];
  } else {
    return lane_sums<N, L / 2>(v);
  }
}

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/// step.template operator()<N>(c) for pieces of N = kLanes, ..., 8, 4, 1 columns that cover [0, n).
/// Always inline, so that what the steps share stays in registers.
template <class Step>
[[gnu::always_inline]] inline void for_pieces(int64_t n, const Step& step) {
  int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) step.template operator()<kLanes>(c);
  if constexpr (kLanes > 8) {
    if (c + 8 <= n) step.template operator()<8>(c), c += 8;
  }
  if (c + 4 <= n) step.template operator()<4>(c), c += 4;
  for (; c < n; ++c) step.template operator()<1>(c);
}

/// N consecutive floats in registers: whole vectors, N a power of two. GCC would keep them in
/// memory in loops that it unrolls late.
template <int N>
struct Block {
  static constexpr int kWidth = N < kLanes ? N : kLanes;
  static constexpr int kCount = N / kWidth;
  Floats<kWidth> v[kCount];

  template <class T>
  static Block from(const T* p) {
    Block b;
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) b.v[i] = load<kWidth>(p + i * kWidth);
    return b;
  }
  void plus(const Block& other) {
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) v[i] = v[i] + other.v[i];
  }
  void times(float s) {
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) v[i] = v[i] * broadcast<kWidth>(s);
  }
  template <class T>
  void to(T* p) const {
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) store<kWidth>(p + i * kWidth, v[i]);
  }
};

/// The widest Block that leaves some registers free.
constexpr int kBlockMax = 8 * kLanes;

/// step.template operator()<N>(c) for blocks of N = kBlockMax ... 4, 1 columns that cover [0, n).
template <int N = kBlockMax, class Step>
inline void for_blocks(int64_t n, const Step& step, int64_t c = 0) {
  for (; c + N <= n; c += N) step.template operator()<N>(c);
  if constexpr (N > 4) {
    for_blocks<N / 2>(n, step, c);
  } else if constexpr (N == 4) {
    for_blocks<1>(n, step, c);
  }
}

/// Prefetches at most the first four lines. The processor prefetches the following ones itself.
/// Uses assembly, because GCC drops calls of a function that contains only __builtin_prefetch.
inline void prefetch_bytes(const void* p, int64_t bytes) {
  const char* at = static_cast<const char*>(p);
  const int64_t end = smaller(bytes, 256);
  for (int64_t i = 0; i < end; i += 64) asm volatile("prefetcht0 %0" : : "m"(at[i]));
}

/// Prefetches a row at a random address into the second-level cache. That cache allows more misses
/// in flight than the first-level cache, so random rows arrive twice as fast.
inline void prefetch_row(const void* p, int64_t bytes) {
  const char* at = static_cast<const char*>(p);
  const int64_t end = smaller(bytes, 1024);
  for (int64_t i = 0; i < end; i += 64) asm volatile("prefetcht1 %0" : : "m"(at[i]));
}

/// Prefetch distance in rows: 16 KiB. That is more than a core can have in flight, and it stays in
/// the second-level cache until it is used.
constexpr int64_t rows_ahead(int64_t row_bytes) {
  const int64_t rows = 16384 / (row_bytes > 0 ? row_bytes : 1);
  return rows < 8 ? 8 : rows > 64 ? 64 : rows;
}

/// Prefetches the list of rows of which `at` is an element, 4 KiB ahead, once for each line. A row
/// can be prefetched only when its number is known, and the processor's own prefetches come too
/// late while rows take the memory's bandwidth. May prefetch addresses behind the list.
inline void fetch_list_after(const int64_t* at) {
  constexpr uintptr_t kLine = 64, kAhead = 4096;
  const auto address = reinterpret_cast<uintptr_t>(at);
  if (address % kLine == 0) asm volatile("prefetcht0 (%0)" : : "r"(address + kAhead));
}

}  // namespace
}  // namespace dlrm::cpu
