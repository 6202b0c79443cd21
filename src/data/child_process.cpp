#include "child_process.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fmt/format.h>
#include <sys/wait.h>

#include "dlrm/data/python_package.h"

namespace dlrm {

int start_child(const char* program, const posix_spawn_file_actions_t& files,
                std::vector<std::string>& words, std::vector<std::string>& environment,
                pid_t& process) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Signals to a group of processes are for the parent.
  sigset_t blocked, defaults;
  sigemptyset(&blocked);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&blocked, s);
  sigfillset(&defaults);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  // Not fork(): that copies page tables, and is unsafe beside MPI's threads and pinned memory.
  const int error = posix_spawnp(&process, program, &files, &attributes, pointers_to(words).data(),
                                 pointers_to(environment).data());
  posix_spawnattr_destroy(&attributes);
  return error;
}

int await_child(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return fmt::format("signal {}", strsignal(WTERMSIG(status)));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace dlrm
