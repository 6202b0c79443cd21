#pragma once
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

// Counts the allocations of a whole program. It defines the operators, so one file of a program
// includes it.

namespace {

std::atomic<int64_t> allocations = 0, held = 0;

// A sanitizer has its own operators, which find what others would hide.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCounted = false;
}  // namespace
#else
constexpr bool kCounted = true;
}  // namespace

void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  held.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes > 0 ? bytes : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory) held.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
#endif
