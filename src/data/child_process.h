#pragma once
#include <string>
#include <vector>

#include <spawn.h>
#include <sys/types.h>

namespace dlrm {

/// Starts a program, which PATH may find, with these words and this environment ("NAME=value"
/// each). Signals that stop a run are blocked in it: they are for this process. Returns 0, or the
/// number of the system's error.
int start_child(const char* program, const posix_spawn_file_actions_t& files,
                std::vector<std::string>& words, std::vector<std::string>& environment,
                pid_t& process);

/// Waits until it ends. Returns how, as waitpid() tells.
int await_child(pid_t process);

/// "signal Killed" or "exit code 3".
std::string how_it_ended(int status);

}  // namespace dlrm
