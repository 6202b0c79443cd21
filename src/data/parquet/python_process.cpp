#include "python_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/data/python_package.h"

#include "child_process.h"

namespace dlrm {

PythonProcess::PythonProcess(const std::string& module, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = python_command(module, arguments);
  std::vector<std::string> environment = python_environment();
  program_ = words[0];
  std::array<int, 2> in{}, out{};
  // A socket: a process that has ended then is an error of send(), and no signal.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in.data()) != 0 ||
      pipe2(out.data(), O_CLOEXEC) != 0) {
    throw run_error("cannot make a pipe: {}", std::strerror(errno));
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
  const int error = start_child(words[0].c_str(), files, words, environment, process_);
  posix_spawn_file_actions_destroy(&files);
  ::close(in[0]);
  ::close(out[1]);
  input_ = in[1];
  output_ = out[0];
  if (error == 0) return;
  ::close(input_);
  ::close(output_);
  throw usage_error("cannot start {}: {}; Parquet files need Python: {}", words[0],
                    std::strerror(error), python_advice());
}

PythonProcess::~PythonProcess() {
  ::close(input_);
  ::close(output_);  // it ends if it writes
  if (process_ >= 0) await_child(process_);
}

void PythonProcess::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::send(input_, text.data(), text.size(), MSG_NOSIGNAL);
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

nlohmann::json PythonProcess::read_answer() {
  nlohmann::json answer = nlohmann::json::parse(read_line());
  if (answer.is_object() && answer.contains("error")) {
    throw usage_error("{}", answer.at("error").get<std::string>());
  }
  return answer;
}

void PythonProcess::ended() {
  const std::string how = how_it_ended(await_child(std::exchange(process_, -1)));
  throw Ended{fmt::format("{} ended with {}", program_, how)};
}

}  // namespace dlrm
