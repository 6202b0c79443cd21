#pragma once
#include <sys/types.h>

namespace dlrm {

/// Whether a reader sees stderr at once on a terminal: stderr is one, or this process is a child of
/// mpirun, whose stderr is one. mpirun passes on what its ranks write.
bool errors_reach_terminal();

/// Whether `process` is an mpirun that passes on its ranks' stderr to a terminal unchanged, without
/// tags, times or files.
bool is_launcher_on_terminal(pid_t process);

}  // namespace dlrm
