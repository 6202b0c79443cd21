#include "dlrm/core/file_lock.h"

#include <array>
#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

constexpr size_t kMostName = 200;  // bytes of the file's name in that of the lock

std::string lock_name(const std::string& target) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path path = fs::absolute(target, ignored);
  const fs::path folder = fs::canonical(path.parent_path(), ignored);
  const std::string name = fmt::format(".{}.lock", path.filename().string().substr(0, kMostName));
  return (folder.empty() ? path.parent_path() / name : folder / name).string();
}

/// Whether `name` is still the file that is open.
bool in_place(int fd, const std::string& name) {
  struct stat held {
  }, there{};
  return ::fstat(fd, &held) == 0 && ::lstat(name.c_str(), &there) == 0 &&
         held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

std::string holder_of(int fd) {
  std::array<char, 32> text{};
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  const std::string found(text.data(), static_cast<size_t>(size > 0 ? size : 0));
  const std::string process = found.substr(0, found.find('\n'));
  return process.empty() ? "unknown" : process;
}

}  // namespace

FileLock::FileLock(const std::string& target) : name_(lock_name(target)) {
  while (fd_ < 0) {
    fd_ = ::open(name_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd_ < 0) return;
    held_ = ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
    if (!held_ && errno == EWOULDBLOCK) {
      const std::string holder = holder_of(fd_);
      ::close(fd_);
      throw usage_error(
          "{}: is being written by another program (process {}); let it end, or name another file",
          target, holder);
    }
    if (in_place(fd_, name_)) break;
    ::close(fd_);  // its holder has removed it
    fd_ = -1;
  }
  // The lock holds without this text, too.
  const std::string process = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd_, 0) == 0) (void)!::pwrite(fd_, process.data(), process.size(), 0);
}

FileLock::~FileLock() {
  if (fd_ < 0) return;
  ::unlink(name_.c_str());
  ::close(fd_);
}

}  // namespace dlrm
