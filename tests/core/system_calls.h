#pragma once
#include <functional>
#include <mutex>
#include <string>

#include <sched.h>

namespace dlrm::testing {

/// From now on this program can start so many threads; negative: any number.
void let_threads_start(int count);

/// What a call of the system does in place of its work.
struct Disturbance {
  int error = 0;             ///< the call fails with this errno
  size_t most = ~size_t{0};  ///< the call transfers or reserves at most so many bytes
};

/// While it lives, it may disturb the calls of this program that concern files below a folder.
/// system_calls.cpp lists the functions. One at a time.
class SystemCalls {
 public:
  /// Asked before each call, by one thread at a time.
  using Choose = std::function<Disturbance(const std::string& function)>;
  SystemCalls(const std::string& folder, Choose choose);
  ~SystemCalls();
  SystemCalls(const SystemCalls&) = delete;
  SystemCalls& operator=(const SystemCalls&) = delete;

  /// For the functions.
  Disturbance disturbance_of(const char* function, const std::string& path);

 private:
  std::string folder_;
  Choose choose_;
  std::mutex mutex_;
};

/// What sched_getaffinity() tells, if it is set.
extern const cpu_set_t* pretended_cpus;
/// If set, gethostname() and sched_getaffinity() fail.
extern bool system_is_silent;

}  // namespace dlrm::testing
