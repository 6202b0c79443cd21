#include "system_calls.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "real_function.h"

namespace dlrm::test {
namespace {

std::atomic<SystemCalls*> active{nullptr};
std::atomic<int> threads_left{-1};

std::string path_of(int fd) {
  std::array<char, 4096> path{};
  const std::string link = fmt::format("/proc/self/fd/{}", fd);
  const auto size = ::syscall(SYS_readlink, link.c_str(), path.data(), path.size() - 1);
  return size > 0 ? path.data() : "";
}

Disturbance of_path(const char* function, const std::string& path) {
  SystemCalls* const calls = active;
  if (!calls) return {};  // a signal handler may call these functions
  const int before = errno;
  const Disturbance chosen = calls->disturbance_of(function, path);
  errno = before;
  return chosen;
}

Disturbance of_file(const char* function, int fd) {
  return active.load() ? of_path(function, path_of(fd)) : Disturbance{};
}

/// -1 with the errno of `chosen`, or what `call` returns.
template <class Call>
auto done(const Disturbance& chosen, const Call& call) -> decltype(call()) {
  if (chosen.error == 0) return call();
  errno = chosen.error;
  return -1;
}

// What some file systems cannot do is done with calls that all of them have.
ssize_t copy_range(int from, off_t* source, int to, off_t* target, size_t bytes) {
  std::string text(bytes, 0);
  const auto got = ::syscall(SYS_pread64, from, text.data(), bytes, *source);
  if (got <= 0) return got;
  const auto put = ::syscall(SYS_pwrite64, to, text.data(), got, *target);
  if (put > 0) *source += put, *target += put;
  return put;
}

int lengthen(int fd, off_t bytes) {
  struct stat status {};
  if (::syscall(SYS_fstat, fd, &status) != 0) return -1;
  return status.st_size >= bytes ? 0 : static_cast<int>(::syscall(SYS_ftruncate, fd, bytes));
}

int exchange(const char* from, const char* to) {
  const std::string aside = std::string(from) + ".aside";
  const bool done = ::syscall(SYS_rename, to, aside.c_str()) == 0 &&
                    ::syscall(SYS_rename, from, to) == 0 &&
                    ::syscall(SYS_rename, aside.c_str(), from) == 0;
  return done ? 0 : -1;
}

}  // namespace

const cpu_set_t* pretended_cpus = nullptr;
bool system_is_silent = false;

void let_threads_start(int count) { threads_left = count; }

SystemCalls::SystemCalls(const std::string& folder, Choose choose)
    : folder_(folder), choose_(std::move(choose)) {
  active = this;
}

SystemCalls::~SystemCalls() { active = nullptr; }

Disturbance SystemCalls::disturbance_of(const char* function, const std::string& path) {
  if (path != folder_ && path.rfind(folder_ + "/", 0) != 0) return {};
  const std::lock_guard lock(mutex_);
  return choose_(function);
}

}  // namespace dlrm::test

// The functions of the C library, for this program.
extern "C" {

using dlrm::test::done;
using dlrm::test::of_file;
using dlrm::test::of_path;

#define REAL(name) \
  static auto* const real_##name = dlrm::testing::real_function<decltype(name)>(#name)

int open(const char* path, int flags, ...) {
  REAL(open);
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  return done(of_path("open", path), [&] { return real_open(path, flags, mode); });
}

int fcntl(int fd, int command, ...) {
  REAL(fcntl);
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);
  va_end(more);
  const bool asked = command == F_SETFL || command == F_OFD_SETLK;
  return done(asked ? of_file("fcntl", fd) : dlrm::test::Disturbance{},
              [&] { return real_fcntl(fd, command, argument); });
}

int mkostemp(char* name, int flags) {
  REAL(mkostemp);
  return done(of_path("mkostemp", name), [&] { return real_mkostemp(name, flags); });
}

int fstat(int fd, struct stat* status) noexcept {
  REAL(fstat);
  return done(of_file("fstat", fd), [&] { return real_fstat(fd, status); });
}

ssize_t pread(int fd, void* data, size_t bytes, off_t offset) {
  REAL(pread);
  const auto chosen = of_file("pread", fd);
  return done(chosen, [&] { return real_pread(fd, data, std::min(bytes, chosen.most), offset); });
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  REAL(pwrite);
  const auto chosen = of_file("pwrite", fd);
  return done(chosen, [&] { return real_pwrite(fd, data, std::min(bytes, chosen.most), offset); });
}

ssize_t copy_file_range(int from, off_t* source, int to, off_t* target, size_t bytes,
                        unsigned flags) {
  REAL(copy_file_range);
  if (dlrm::test::active.load() == nullptr) {
    return real_copy_file_range(from, source, to, target, bytes, flags);
  }
  const auto chosen = of_file("copy_file_range", to);
  return done(chosen, [&] {
    return dlrm::test::copy_range(from, source, to, target, std::min(bytes, chosen.most));
  });
}

int fsync(int fd) {
  REAL(fsync);
  if (dlrm::test::active.load() == nullptr) return real_fsync(fd);
  return done(of_file("fsync", fd), [] { return 0; });  // which takes less time
}

int fdatasync(int fd) {
  REAL(fdatasync);
  if (dlrm::test::active.load() == nullptr) return real_fdatasync(fd);
  return done(of_file("fdatasync", fd), [] { return 0; });
}

int sync_file_range(int fd, off64_t offset, off64_t bytes, unsigned flags) {
  REAL(sync_file_range);
  return done(of_file("sync_file_range", fd),
              [&] { return real_sync_file_range(fd, offset, bytes, flags); });
}

int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  REAL(fallocate);
  if (dlrm::test::active.load() == nullptr) return real_fallocate(fd, mode, offset, bytes);
  const auto chosen = of_file("fallocate", fd);
  // A call that fails may have reserved a part.
  const bool part = chosen.error != 0 && chosen.most < static_cast<size_t>(bytes);
  if (part) dlrm::test::lengthen(fd, offset + static_cast<off_t>(chosen.most));
  return done(chosen, [&] { return dlrm::test::lengthen(fd, offset + bytes); });
}

int ftruncate(int fd, off_t bytes) noexcept {
  REAL(ftruncate);
  return done(of_file("ftruncate", fd), [&] { return real_ftruncate(fd, bytes); });
}

int futimens(int fd, const struct timespec* times) noexcept {
  REAL(futimens);
  return done(of_file("futimens", fd), [&] { return real_futimens(fd, times); });
}

int access(const char* path, int mode) noexcept {
  REAL(access);
  return done(of_path("access", path), [&] { return real_access(path, mode); });
}

int rename(const char* from, const char* to) noexcept {
  REAL(rename);
  return done(of_path("rename", from), [&] { return real_rename(from, to); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  REAL(renameat2);
  if (dlrm::test::active.load() == nullptr) {
    return real_renameat2(from_folder, from, to_folder, to, flags);
  }
  return done(of_path("renameat2", from), [&] { return dlrm::test::exchange(from, to); });
}

int unlink(const char* path) noexcept {
  REAL(unlink);
  return done(of_path("unlink", path), [&] { return real_unlink(path); });
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) noexcept {
  REAL(pthread_create);
  if (dlrm::test::threads_left == 0) return EAGAIN;
  if (dlrm::test::threads_left > 0) --dlrm::test::threads_left;
  return real_pthread_create(thread, attributes, run, argument);
}

int gethostname(char* name, size_t bytes) noexcept {
  REAL(gethostname);
  if (!dlrm::test::system_is_silent) return real_gethostname(name, bytes);
  errno = EPERM;
  return -1;
}

int sched_getaffinity(pid_t process, size_t bytes, cpu_set_t* set) noexcept {
  REAL(sched_getaffinity);
  if (dlrm::test::pretended_cpus) {
    std::memcpy(set, dlrm::test::pretended_cpus, bytes);
    return 0;
  }
  if (!dlrm::test::system_is_silent) return real_sched_getaffinity(process, bytes, set);
  errno = EPERM;
  return -1;
}

}  // extern "C"
