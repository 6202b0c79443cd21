#pragma once
#include <string>
#include <vector>

namespace dlrm::bench {

/// Runs another program to its end, as if a shell had started it: outside of this process's MPI
/// job, and without output. If it fails, throws a run_error with the last line of its stderr, or a
/// usage_error if it ended with exit code 2.
void run_program(const std::string& path, const std::vector<std::string>& arguments);

}  // namespace dlrm::bench
