#pragma once
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <sched.h>

namespace dlrm::testing {

/// From now on this program can start so many threads; negative: any number.
void let_threads_start(int count);

/// What a call of the system does in place of its work.
struct Disturbance {
  int error = 0;             ///< the call fails with this errno
  size_t most = ~size_t{0};  ///< the call transfers at most so many bytes
};

/// While it lives, it notes the calls of this program that concern files below a folder, and can
/// disturb them. system_calls.cpp lists the functions. One at a time.
class SystemCalls {
 public:
  using Choose = std::function<Disturbance(const std::string& call)>;
  SystemCalls(const std::string& folder, Choose choose);
  ~SystemCalls();
  SystemCalls(const SystemCalls&) = delete;
  SystemCalls& operator=(const SystemCalls&) = delete;

  /// The calls so far, with their arguments. Names of files lack the folder.
  std::vector<std::string> noted() const;

  /// For the functions.
  std::string short_name(const std::string& path) const;
  Disturbance note(const std::string& call);

 private:
  std::string folder_;
  Choose choose_;
  mutable std::mutex mutex_;
  std::vector<std::string> noted_;
};

/// What sched_getaffinity() tells, if it is set.
extern const cpu_set_t* pretended_cpus;

}  // namespace dlrm::testing
