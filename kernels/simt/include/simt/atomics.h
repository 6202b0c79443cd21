#pragma once
// Atomic operations on device and shared memory. They are atomic among host threads too, and
// relaxed like CUDA's.
#include <bit>
#include <cstring>
#include <type_traits>

namespace simt {

template <size_t kBytes>
struct Word;
template <>
struct Word<2> {
  using Type = unsigned short;
};
template <>
struct Word<4> {
  using Type = unsigned;
};
template <>
struct Word<8> {
  using Type = unsigned long long;
};

/// Atomically replaces *address by change(*address). Returns the old value.
template <class T, class Change>
T atomic_change(T* address, Change change) {
  using Bits = typename Word<sizeof(T)>::Type;
  auto* word = reinterpret_cast<Bits*>(address);
  Bits seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  for (;;) {
    const T old = std::bit_cast<T>(seen);
    const Bits next = std::bit_cast<Bits>(static_cast<T>(change(old)));
    if (__atomic_compare_exchange_n(word, &seen, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      return old;
    }
  }
}

template <class T>
using Same = std::type_identity_t<T>;

}  // namespace simt

#define SIMT_ATOMIC(name, expression)                                              \
  template <class T>                                                               \
  T name(T* address, simt::Same<T> value) {                                        \
    return simt::atomic_change(address, [&](T old) -> T { return (expression); }); \
  }

SIMT_ATOMIC(atomicAdd, old + value)
SIMT_ATOMIC(atomicMin, value < old ? value : old)
SIMT_ATOMIC(atomicMax, old < value ? value : old)
SIMT_ATOMIC(atomicOr, old | value)
SIMT_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
#undef SIMT_ATOMIC

template <class T>
T atomicCAS(T* address, simt::Same<T> compare, simt::Same<T> value) {
  return simt::atomic_change(address, [&](T old) { return old == compare ? value : old; });
}
