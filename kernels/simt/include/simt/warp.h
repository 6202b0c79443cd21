#pragma once
// Operations of a warp: the lanes of the mask wait for each other. Reports a lane that ended or
// waits at another place, lanes at different operations, and a caller outside its mask.
#include <cstring>
#include <type_traits>

#include "simt/threads.h"

namespace simt {

enum class WarpOp : unsigned char {
  kSync,
  kIndex,  ///< shfl_sync
  kUp,
  kDown,
  kXor,
  kBallot,
  kMatchAny,
  kReduceAdd,
  kReduceMin,
};

/// One lane's part of an operation. `value` and the result are the bits of the lane's values.
/// `argument` and `width` are those of CUDA's shuffles.
unsigned long long warp_op(WarpOp op, unsigned mask, unsigned long long value, int argument,
                           int width, bool is_signed, const Where& where);

template <class T>
unsigned long long bits_of(T value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  unsigned long long bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <class T>
T value_of(unsigned long long bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <class T>
T shuffle(WarpOp op, unsigned mask, T value, int argument, int width, const Where& where) {
  return value_of<T>(warp_op(op, mask, bits_of(value), argument, width, false, where));
}

template <class T>
T reduce(WarpOp op, unsigned mask, T value, const Where& where) {
  static_assert(sizeof(T) == 4 && std::is_integral_v<T>);
  return value_of<T>(warp_op(op, mask, bits_of(value), 0, 32, std::is_signed_v<T>, where));
}

int lane_index();

}  // namespace simt

inline void __syncwarp(unsigned mask = 0xffffffffu,
                       const simt::Where& where = simt::Where::current()) {
  simt::warp_op(simt::WarpOp::kSync, mask, 0, 0, 32, false, where);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32,
              const simt::Where& where = simt::Where::current()) {
  return simt::shuffle(simt::WarpOp::kIndex, mask, value, lane, width, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 const simt::Where& where = simt::Where::current()) {
  return simt::shuffle(simt::WarpOp::kUp, mask, value, static_cast<int>(delta), width, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   const simt::Where& where = simt::Where::current()) {
  return simt::shuffle(simt::WarpOp::kDown, mask, value, static_cast<int>(delta), width, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                  const simt::Where& where = simt::Where::current()) {
  return simt::shuffle(simt::WarpOp::kXor, mask, value, lanes, width, where);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              const simt::Where& where = simt::Where::current()) {
  return static_cast<unsigned>(
      simt::warp_op(simt::WarpOp::kBallot, mask, predicate != 0, 0, 32, false, where));
}
inline int __any_sync(unsigned mask, int predicate,
                      const simt::Where& where = simt::Where::current()) {
  return __ballot_sync(mask, predicate, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      const simt::Where& where = simt::Where::current()) {
  return __ballot_sync(mask, predicate, where) == mask;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value,
                          const simt::Where& where = simt::Where::current()) {
  return static_cast<unsigned>(
      simt::warp_op(simt::WarpOp::kMatchAny, mask, simt::bits_of(value), 0, 32, false, where));
}
template <class T>
T __reduce_add_sync(unsigned mask, T value, const simt::Where& where = simt::Where::current()) {
  return simt::reduce(simt::WarpOp::kReduceAdd, mask, value, where);
}
template <class T>
T __reduce_min_sync(unsigned mask, T value, const simt::Where& where = simt::Where::current()) {
  return simt::reduce(simt::WarpOp::kReduceMin, mask, value, where);
}
