#include "bus_errors.h"

#include <csignal>
#include <mutex>

#include <sys/mman.h>
#include <unistd.h>

namespace dlrm {
namespace {

// A signal handler takes no argument of ours, so the list is global. Entries are reused and never
// freed: a handler may be reading them.
std::atomic<GuardedRange*> ranges{nullptr};
static_assert(std::atomic<GuardedRange*>::is_always_lock_free);

uintptr_t page_bytes = 0;
struct sigaction earlier {};

GuardedRange* range_of(uintptr_t address) {
  for (GuardedRange* range = ranges.load(); range != nullptr; range = range->next) {
    if (range->begin.load() <= address && address < range->end.load()) return range;
  }
  return nullptr;
}

/// Replaces the page at `address` and the rest of its range by zeros.
bool replace_by_zeros(GuardedRange& range, uintptr_t address) {
  const uintptr_t page = address & ~(page_bytes - 1);
  range.lost.store(true);
  return mmap(reinterpret_cast<void*>(page), range.end.load() - page, PROT_READ,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

/// Does what would have been done without our handler.
void pass_on(int signal, siginfo_t* info, void* context) {
  if ((earlier.sa_flags & SA_SIGINFO) != 0) return earlier.sa_sigaction(signal, info, context);
  if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN) {
    return earlier.sa_handler(signal);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  GuardedRange* range = range_of(address);
  if (range == nullptr || !replace_by_zeros(*range, address)) pass_on(signal, info, context);
}

void install_handler() {
  page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, &earlier);
}

GuardedRange* free_entry() {
  for (GuardedRange* range = ranges.load(); range != nullptr; range = range->next) {
    if (!range->used.exchange(true)) return range;
  }
  auto* range = new GuardedRange;
  range->used.store(true);
  range->next = ranges.load();
  while (!ranges.compare_exchange_weak(range->next, range)) {
  }
  return range;
}

}  // namespace

GuardedRange* guard_range(const void* begin, size_t bytes) {
  static std::once_flag installed;
  std::call_once(installed, install_handler);
  const auto address = reinterpret_cast<uintptr_t>(begin);
  GuardedRange* range = free_entry();
  range->lost.store(false);
  range->end.store(address + bytes);
  range->begin.store(address);
  return range;
}

void release_range(GuardedRange* range) {
  range->end.store(0);
  range->used.store(false);
}

}  // namespace dlrm
