#include "system_calls.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dlrm::testing {
namespace {

std::atomic<SystemCalls*> active{nullptr};
std::atomic<int> threads_left{-1};

struct Flag {
  int bits;
  const char* name;
};
constexpr std::array kFlags{
    Flag{O_CREAT, "CREAT"},       Flag{O_EXCL, "EXCL"},           Flag{O_TRUNC, "TRUNC"},
    Flag{O_NOFOLLOW, "NOFOLLOW"}, Flag{O_NONBLOCK, "NONBLOCK"},   Flag{O_NOCTTY, "NOCTTY"},
    Flag{O_CLOEXEC, "CLOEXEC"},   Flag{O_DIRECTORY, "DIRECTORY"}, Flag{O_DIRECT, "DIRECT"}};

std::string shown_flags(int flags) {
  constexpr std::array kAccess{"RDONLY", "WRONLY", "RDWR", "?"};
  std::string text = kAccess[static_cast<size_t>(flags & O_ACCMODE)];
  for (const Flag& flag : kFlags) {
    if ((flags & flag.bits) == flag.bits) text += fmt::format("|{}", flag.name);
  }
  return text;
}

std::string path_of(int fd) {
  std::array<char, 4096> path{};
  const std::string link = fmt::format("/proc/self/fd/{}", fd);
  const auto size = ::syscall(SYS_readlink, link.c_str(), path.data(), path.size() - 1);
  return size > 0 ? path.data() : "";
}

/// Notes `call` if it concerns a file below the folder.
template <class... Args>
Disturbance note(const std::string& path, const char* format, const Args&... args) {
  SystemCalls* const calls = active;
  const int before = errno;
  const std::string name = calls->short_name(path);
  const Disturbance chosen =
      name.empty() ? Disturbance{} : calls->note(fmt::format(fmt::runtime(format), name, args...));
  errno = before;
  return chosen;
}

template <class... Args>
Disturbance note_open(int fd, const char* format, const Args&... args) {
  return note(path_of(fd), format, args...);
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

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

const cpu_set_t* pretended_cpus = nullptr;

void let_threads_start(int count) { threads_left = count; }

SystemCalls::SystemCalls(const std::string& folder, Choose choose)
    : folder_(folder), choose_(std::move(choose)) {
  active = this;
}

SystemCalls::~SystemCalls() { active = nullptr; }

std::vector<std::string> SystemCalls::noted() const {
  const std::lock_guard lock(mutex_);
  return noted_;
}

std::string SystemCalls::short_name(const std::string& path) const {
  if (path == folder_) return ".";
  if (path == "gethostname" || path == "sched_getaffinity") return path;
  if (path.rfind(folder_ + "/", 0) != 0) return "";
  std::string name = path.substr(folder_.size() + 1);
  if (name.ends_with(" (deleted)")) return "NAMELESS";
  for (size_t at = name.find('.'); at != std::string::npos; at = name.find('.', at + 1)) {
    // The random part of a temporary name.
    if (name.size() == at + 13 && name.ends_with(".tmp")) name.replace(at + 1, 8, "RANDOM");
  }
  return name;
}

Disturbance SystemCalls::note(const std::string& call) {
  const std::lock_guard lock(mutex_);
  noted_.push_back(call);
  return choose_ ? choose_(call) : Disturbance{};
}

}  // namespace dlrm::testing

// The functions of the C library, for this program.
extern "C" {

using dlrm::testing::done;
using dlrm::testing::note;
using dlrm::testing::note_open;

// Nothing happens beside the call if nobody asks, because a signal handler may call these
// functions.
#define NOTED(noted) \
  (dlrm::testing::active.load() == nullptr ? dlrm::testing::Disturbance{} : (noted))
#define REAL(name) static auto* const real_##name = dlrm::testing::real<decltype(name)>(#name)

int open(const char* path, int flags, ...) {
  REAL(open);
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  return done(NOTED(note(path, "open {} {} {:o}", dlrm::testing::shown_flags(flags), mode)),
              [&] { return real_open(path, flags, mode); });
}

int fcntl(int fd, int command, ...) {
  REAL(fcntl);
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);
  va_end(more);
  const auto chosen =
      dlrm::testing::active.load() == nullptr ? dlrm::testing::Disturbance{}
      : command == F_SETFL
          ? note_open(
                fd, "fcntl {} SETFL {}",
                dlrm::testing::shown_flags(static_cast<int>(reinterpret_cast<intptr_t>(argument))))
      : command == F_OFD_SETLK
          ? note_open(fd, "fcntl {} OFD_SETLK {}", static_cast<struct flock*>(argument)->l_type)
          : dlrm::testing::Disturbance{};
  return done(chosen, [&] { return real_fcntl(fd, command, argument); });
}

int mkostemp(char* name, int flags) {
  REAL(mkostemp);
  return done(NOTED(note(name, "mkostemp {} {}", dlrm::testing::shown_flags(flags))),
              [&] { return real_mkostemp(name, flags); });
}

int close(int fd) {
  REAL(close);
  static_cast<void>(NOTED(note_open(fd, "close {}")));
  return real_close(fd);
}

int fstat(int fd, struct stat* status) noexcept {
  REAL(fstat);
  return done(NOTED(note_open(fd, "fstat {}")), [&] { return real_fstat(fd, status); });
}

ssize_t pread(int fd, void* data, size_t bytes, off_t offset) {
  REAL(pread);
  const auto chosen = NOTED(note_open(fd, "pread {}, {} at {}", bytes, offset));
  return done(chosen, [&] { return real_pread(fd, data, std::min(bytes, chosen.most), offset); });
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  REAL(pwrite);
  const auto chosen = NOTED(note_open(fd, "pwrite {}, {} at {}", bytes, offset));
  return done(chosen, [&] { return real_pwrite(fd, data, std::min(bytes, chosen.most), offset); });
}

ssize_t copy_file_range(int from, off_t* source, int to, off_t* target, size_t bytes,
                        unsigned flags) {
  REAL(copy_file_range);
  const auto chosen =
      NOTED(note_open(to, "copy_file_range to {}, {} from {} at {}", bytes, *source, *target));
  if (dlrm::testing::active.load() == nullptr) {
    return real_copy_file_range(from, source, to, target, bytes, flags);
  }
  return done(chosen, [&] {
    return dlrm::testing::copy_range(from, source, to, target, std::min(bytes, chosen.most));
  });
}

int fsync(int fd) {
  REAL(fsync);
  if (dlrm::testing::active.load() == nullptr) return real_fsync(fd);
  return done(note_open(fd, "fsync {}"), [] { return 0; });  // which takes less time
}

int fdatasync(int fd) {
  REAL(fdatasync);
  if (dlrm::testing::active.load() == nullptr) return real_fdatasync(fd);
  return done(note_open(fd, "fdatasync {}"), [] { return 0; });
}

int sync_file_range(int fd, off64_t offset, off64_t bytes, unsigned flags) {
  REAL(sync_file_range);
  return done(NOTED(note_open(fd, "sync_file_range {}, {} at {}, {}", bytes, offset, flags)),
              [&] { return real_sync_file_range(fd, offset, bytes, flags); });
}

int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  REAL(fallocate);
  if (dlrm::testing::active.load() == nullptr) return real_fallocate(fd, mode, offset, bytes);
  const auto chosen = note_open(fd, "fallocate {}, {} at {}", bytes, offset);
  // A call that fails may have reserved a part.
  const bool part = chosen.error != 0 && chosen.most < static_cast<size_t>(bytes);
  if (part) dlrm::testing::lengthen(fd, offset + static_cast<off_t>(chosen.most));
  return done(chosen, [&] { return dlrm::testing::lengthen(fd, offset + bytes); });
}

int ftruncate(int fd, off_t bytes) noexcept {
  REAL(ftruncate);
  return done(NOTED(note_open(fd, "ftruncate {}, {}", bytes)),
              [&] { return real_ftruncate(fd, bytes); });
}

int futimens(int fd, const struct timespec* times) noexcept {
  REAL(futimens);
  return done(NOTED(note_open(fd, "futimens {}")), [&] { return real_futimens(fd, times); });
}

int access(const char* path, int mode) noexcept {
  REAL(access);
  return done(NOTED(note(path, "access {}")), [&] { return real_access(path, mode); });
}

int rename(const char* from, const char* to) noexcept {
  REAL(rename);
  return done(NOTED(note(from, "rename {}")), [&] { return real_rename(from, to); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  REAL(renameat2);
  if (dlrm::testing::active.load() == nullptr) {
    return real_renameat2(from_folder, from, to_folder, to, flags);
  }
  return done(note(from, "renameat2 {}"), [&] { return dlrm::testing::exchange(from, to); });
}

int unlink(const char* path) noexcept {
  REAL(unlink);
  return done(NOTED(note(path, "unlink {}")), [&] { return real_unlink(path); });
}

int remove(const char* path) noexcept {
  REAL(remove);
  return done(NOTED(note(path, "remove {}")), [&] { return real_remove(path); });
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) noexcept {
  REAL(pthread_create);
  if (dlrm::testing::threads_left == 0) return EAGAIN;
  if (dlrm::testing::threads_left > 0) --dlrm::testing::threads_left;
  return real_pthread_create(thread, attributes, run, argument);
}

int gethostname(char* name, size_t bytes) noexcept {
  REAL(gethostname);
  return done(NOTED(note("gethostname", "{}")), [&] { return real_gethostname(name, bytes); });
}

int sched_getaffinity(pid_t process, size_t bytes, cpu_set_t* set) noexcept {
  if (dlrm::testing::pretended_cpus) {
    std::memcpy(set, dlrm::testing::pretended_cpus, bytes);
    return 0;
  }
  REAL(sched_getaffinity);
  return done(NOTED(note("sched_getaffinity", "{}")),
              [&] { return real_sched_getaffinity(process, bytes, set); });
}

}  // extern "C"
