#include "fiber.h"

#include <cstring>
#include <new>

#include <sys/mman.h>

#include "sanitizer.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace simt {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kStack = size_t{kAddressSanitizer ? 256 : 128} << 10;

thread_local Fiber* left = nullptr;  // the fiber that switched to the running one
thread_local Fiber* running_on = nullptr;

}  // namespace

#if defined(__x86_64__)
// Saves the registers that a call preserves on the old stack and the stack pointer in *from. Then
// continues where `to` was saved.
extern "C" void simt_switch_stack(void** from, void* to);
asm(R"(
.text
.globl simt_switch_stack
.type simt_switch_stack, @function
simt_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size simt_switch_stack, .-simt_switch_stack
)");
#endif

Fiber::Fiber(void (*entry)()) : entry_(entry), stack_bytes_(kStack + kPage) {
  void* stack = ::mmap(nullptr, stack_bytes_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) throw std::bad_alloc();
  stack_ = static_cast<unsigned char*>(stack);
  ::mprotect(stack_, kPage, PROT_NONE);
  bottom_ = stack_ + kPage;
  restart();
}

Fiber::~Fiber() {
  if (stack_) {
    // The sanitizer would keep what it knows of the frames for whoever maps this memory next.
    unpoison(stack_ + kPage, kStack);
    ::munmap(stack_, stack_bytes_);
  }
#if !defined(__x86_64__)
  delete static_cast<ucontext_t*>(context_);
#endif
}

void Fiber::restart() {
  if (kAddressSanitizer) unpoison(stack_ + kPage, kStack);
#if defined(__x86_64__)
  // The layout that simt_switch_stack leaves, with `entry` as the return address and the stack
  // aligned at that point.
  auto* top = reinterpret_cast<void**>(stack_ + stack_bytes_) - 8;
  std::memset(top, 0, 8 * sizeof(void*));
  top[6] = reinterpret_cast<void*>(entry_);
  context_ = top;
#else
  if (!context_) context_ = new ucontext_t;
  auto* context = static_cast<ucontext_t*>(context_);
  getcontext(context);
  context->uc_stack.ss_sp = stack_ + kPage;
  context->uc_stack.ss_size = kStack;
  context->uc_link = nullptr;
  makecontext(context, entry_, 0);
#endif
  fake_stack_ = nullptr;
}

void Fiber::switch_to(Fiber& next) {
  left = this;
  running_on = &next;
  start_switch(&fake_stack_, next.bottom_, next.stack_ ? kStack : next.stack_bytes_);
#if defined(__x86_64__)
  simt_switch_stack(&context_, next.context_);
#else
  if (!context_) context_ = new ucontext_t;
  swapcontext(static_cast<ucontext_t*>(context_), static_cast<ucontext_t*>(next.context_));
#endif
  entered();
}

void Fiber::entered() {
  const void* bottom = nullptr;
  size_t bytes = 0;
  finish_switch(running_on->fake_stack_, &bottom, &bytes);
  if (!left->stack_) {  // a thread's own stack: known only now
    left->bottom_ = bottom;
    left->stack_bytes_ = bytes;
  }
}

}  // namespace simt
