#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>
#include <sys/types.h>

namespace dlrm {

/// A module of the Python package in a process of its own, which reads requests and writes answers.
/// Signals that stop a run are for this process alone; that one ends with its input.
class PythonProcess {
 public:
  /// It ended before it had answered.
  struct Ended {
    std::string how;  ///< "python3 ended with signal Killed"
  };

  /// A usage_error says that it cannot start.
  PythonProcess(const std::string& module, const std::vector<std::string>& arguments);
  ~PythonProcess();
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;

  // These throw Ended.
  void write(std::string_view text);
  /// The next line of its output, without the end.
  std::string read_line();
  void read(std::byte* to, size_t bytes);
  /// The next line, which is JSON. An object with the key "error" is a usage_error.
  nlohmann::json read_answer();

 private:
  bool fill();
  [[noreturn]] void ended();

  std::string program_;
  pid_t process_ = -1;
  int input_ = -1, output_ = -1;
  std::string buffer_;
  size_t taken_ = 0;  // of buffer_
};

}  // namespace dlrm
