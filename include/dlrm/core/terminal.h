#pragma once
#include <sys/types.h>

namespace dlrm {

/// True if lines on stderr appear on a terminal at once: stderr is a terminal, or this process is a
/// child of mpirun, whose stderr is one. mpirun passes on the output of its ranks.
bool errors_reach_terminal();

/// Whether `process` is an mpirun that passes on its ranks' stderr to a terminal unchanged, without
/// tags, times or files.
bool is_launcher_on_terminal(pid_t process);

}  // namespace dlrm
