#pragma once
#include <cstddef>
#include <cstdint>

namespace simt {

/// A stack of its own, and where it stopped. The host thread's own stack is one too.
class Fiber {
 public:
  Fiber() = default;  ///< the calling thread's stack
  /// `entry` runs on the new stack at the first switch, and never returns.
  explicit Fiber(void (*entry)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Leaves `this`, which is running, for `next`.
  void switch_to(Fiber& next);
  /// Forgets what ran here: the next switch enters `entry` anew.
  void restart();
  /// To be called first in `entry`.
  static void entered();

 private:
  void (*entry_)() = nullptr;
  unsigned char* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* context_ = nullptr;  ///< saved stack pointer, or ucontext_t
  void* fake_stack_ = nullptr;
  const void* bottom_ = nullptr;  ///< of the stack, as AddressSanitizer wants it
};

}  // namespace simt
