#pragma once
#include <cstddef>
#include <cstdint>

namespace simt {

/// A separate stack and the point at which it stopped. The host thread's own stack is a Fiber too.
class Fiber {
 public:
  Fiber() = default;  ///< the calling thread's stack
  /// `entry` runs on the new stack at the first switch and never returns.
  explicit Fiber(void (*entry)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Switches from `this`, which is running, to `next`.
  void switch_to(Fiber& next);
  /// Discards the state: the next switch enters `entry` again.
  void restart();
  /// `entry` must call it first.
  static void entered();

 private:
  void (*entry_)() = nullptr;
  unsigned char* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* context_ = nullptr;  ///< saved stack pointer, or ucontext_t
  void* fake_stack_ = nullptr;
  const void* bottom_ = nullptr;  ///< of the stack, for AddressSanitizer
};

}  // namespace simt
