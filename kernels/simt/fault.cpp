// SIGSEGV handler: reports who made an invalid access, and to which device memory.
#include <csignal>
#include <cstdlib>

#include <fmt/format.h>
#include <ucontext.h>
#include <unistd.h>

#include "block.h"
#include "machine.h"

namespace simt {
namespace {

struct sigaction before {};

const char* access_of(const void* context) {
#if defined(__x86_64__)
  const auto* machine = static_cast<const ucontext_t*>(context);
  return machine->uc_mcontext.gregs[REG_ERR] & 2 ? "write" : "read";
#else
  static_cast<void>(context);
  return "access";
#endif
}

[[noreturn]] void say(const std::string& line) {
  const std::string text = "simt: " + line + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  std::_Exit(3);
}

/// The program ends after a fault, so the handler may call functions that are not signal-safe.
void on_fault(int signal, siginfo_t* info, void* context) {
  Machine& machine = Machine::instance();
  const BlockRunner& runner = BlockRunner::of_this_thread();
  if (machine.memory.contains(info->si_addr)) {
    const std::string where = machine.memory.describe(info->si_addr);
    if (runner.running()) {
      say(fmt::format("{}: {} out of bounds at {}: {}", runner.describe_thread(),
                      access_of(context), info->si_addr, where));
    }
    say(fmt::format("host {} of device memory at {}: {}", access_of(context), info->si_addr,
                    where));
  }
  if (runner.running()) {
    say(fmt::format("{}: {} of {}, which is no memory (or the thread's stack overflowed)",
                    runner.describe_thread(), access_of(context), info->si_addr));
  }
  ::sigaction(signal, &before, nullptr);  // the access is retried and reaches the previous handler
}

}  // namespace

void install_fault_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGSEGV, &action, &before);
}

}  // namespace simt
