#include "child_program.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlrm/core/error.h"

namespace dlrm::bench {
namespace {

/// A variable by which an MPI library tells a process of its job.
bool is_of_job(const std::string& variable) {
  for (const char* user : {"OMPI_MCA_", "OMPI_ALLOW_"}) {
    if (variable.rfind(user, 0) == 0) return false;
  }
  for (const char* job : {"OMPI_", "PMIX_", "PMI_"}) {
    if (variable.rfind(job, 0) == 0) return true;
  }
  return false;
}

std::vector<char*> own_environment() {
  std::vector<char*> variables;
  for (char** variable = environ; *variable; ++variable) {
    if (!is_of_job(*variable)) variables.push_back(*variable);
  }
  variables.push_back(nullptr);
  return variables;
}

/// All that is written to a pipe.
std::string read_all(int pipe) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t got = ::read(pipe, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

void run_program(const std::string& path, const std::vector<std::string>& arguments) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw run_error("no pipe: {}", std::strerror(errno));
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDERR_FILENO);
  std::vector<char*> words{const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  std::vector<char*> variables = own_environment();
  pid_t child = -1;
  const int error =
      posix_spawn(&child, path.c_str(), &files, nullptr, words.data(), variables.data());
  posix_spawn_file_actions_destroy(&files);
  ::close(ends[1]);
  const std::string said = error == 0 ? read_all(ends[0]) : "";
  ::close(ends[0]);
  if (error != 0) throw run_error("{}: cannot start: {}", path, std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  std::string line = last_line(said);
  if (line.rfind("error: ", 0) == 0) line = line.substr(7);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) throw usage_error("{}: {}", path, line);
  throw run_error("{}: {}", path, line.empty() ? "ended by a signal" : line);
}

}  // namespace dlrm::bench
