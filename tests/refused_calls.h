#pragma once
// Lets calls of the system fail in a process of its own.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dlrm::test {

constexpr int kAny = -1;

/// A call of the system that fails.
struct Refusal {
  long call;
  int error;
  int argument = kAny;  ///< only calls with this argument equal to `value`
  uint32_t value = 0;
};
using Refusals = std::vector<Refusal>;

inline bool install(const Refusals& refusals) {
  std::vector<sock_filter> filter;
  for (const Refusal& refusal : refusals) {
    const bool all = refusal.argument == kAny;
    filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(refusal.call), 0,
                              static_cast<uint8_t>(all ? 1 : 3)));
    if (!all) {
      const size_t at = offsetof(seccomp_data, args) + 8 * static_cast<size_t>(refusal.argument);
      filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(at)));
      filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refusal.value, 0, 1));
    }
    filter.push_back(
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(refusal.error)));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// What `act` returns in a process in which these calls fail. Empty if there are no filters.
inline std::string in_process_with(const Refusals& refusals,
                                   const std::function<std::string()>& act) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = install(refusals) ? act() : "";
    ::_exit(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0
                                                                                            : 1);
  }
  ::close(ends[1]);
  char text[4096];
  const ssize_t size = ::read(ends[0], text, sizeof text);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return std::string(text, size > 0 ? static_cast<size_t>(size) : 0);
}

/// Without a new thread.
inline const Refusals kNoThreads{{SYS_clone, EAGAIN}, {SYS_clone3, EAGAIN}};

}  // namespace dlrm::test
