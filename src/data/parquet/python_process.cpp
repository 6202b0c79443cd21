#include "python_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/data/python_package.h"

namespace dlrm {

PythonProcess::PythonProcess(const std::string& module, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = python_command(module, arguments);
  std::vector<std::string> environment = python_environment();
  program_ = words[0];
  std::array<int, 2> in{}, out{};
  if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0) {
    throw run_error("cannot make a pipe: {}", std::strerror(errno));
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t blocked, defaults;
  sigemptyset(&blocked);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&blocked, s);
  sigfillset(&defaults);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  // Not fork(): that copies page tables, and is unsafe beside MPI's threads and pinned memory.
  const int error = posix_spawnp(&process_, words[0].c_str(), &files, &attributes,
                                 pointers_to(words).data(), pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  ::close(in[0]);
  ::close(out[1]);
  input_ = in[1];
  output_ = out[0];
  if (error == 0) return;
  ::close(input_);
  ::close(output_);
  throw usage_error("cannot start {}: {}; data.source parquet needs Python: {}", words[0],
                    std::strerror(error), python_advice());
}

PythonProcess::~PythonProcess() {
  ::close(input_);
  ::close(output_);  // it ends if it writes
  if (process_ < 0) return;
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void PythonProcess::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(input_, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) ended();
    text.remove_prefix(static_cast<size_t>(put));
  }
}

/// Reads more into the buffer, whose contents were taken. False at the end.
bool PythonProcess::fill() {
  buffer_.resize(size_t{1} << 16);
  taken_ = 0;
  while (true) {
    const ssize_t got = ::read(output_, buffer_.data(), buffer_.size());
    if (got < 0 && errno == EINTR) continue;
    buffer_.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return got > 0;
  }
}

std::string PythonProcess::read_line() {
  std::string line;
  while (true) {
    const size_t end = buffer_.find('\n', taken_);
    line.append(buffer_, taken_, end == std::string::npos ? end : end - taken_);
    if (end != std::string::npos) {
      taken_ = end + 1;
      return line;
    }
    if (!fill()) ended();
  }
}

void PythonProcess::read(std::byte* to, size_t bytes) {
  const size_t held = std::min(bytes, buffer_.size() - taken_);
  std::memcpy(to, buffer_.data() + taken_, held);
  taken_ += held;
  for (size_t at = held; at < bytes;) {
    const ssize_t got = ::read(output_, to + at, bytes - at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) ended();
    at += static_cast<size_t>(got);
  }
}

void PythonProcess::ended() {
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  if (WIFSIGNALED(status)) {
    throw run_error("{} ended by {}", program_, strsignal(WTERMSIG(status)));
  }
  const int code = WEXITSTATUS(status);
  if (code == 2) throw usage_error("{} cannot read the files", program_);
  throw run_error("{} ended with exit code {}", program_, code);
}

}  // namespace dlrm
