#include "metrics_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlrm/core/error.h"

namespace dlrm {

namespace {

constexpr size_t kMostWaiting = size_t{16} << 20;  // bytes

int open_to_append(const std::string& path) {
  // O_NONBLOCK: a pipe without a reader is an error, rather than a wait.
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  return ::open(path.c_str(), kFlags, 0666);
}

/// All of `text`, or nothing. If false, errno tells why.
bool append_whole(int fd, const std::string& text) {
  struct stat before {};
  if (::fstat(fd, &before) != 0) return false;
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::write(fd, text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) break;
    done += static_cast<size_t>(put);
  }
  if (done == text.size()) return true;
  // Otherwise a part of a line would stay. If it does, the next line is not readable either.
  [[maybe_unused]] const bool removed = done == 0 || ::ftruncate(fd, before.st_size) == 0;
  return false;
}

}  // namespace

void MetricsFile::open(const std::string& path) {
  close();
  path_ = path;
  fd_ = open_to_append(path);
  if (fd_ < 0) throw run_error("{}: cannot open: {}", path, std::strerror(errno));
}

void MetricsFile::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool MetricsFile::reopen_if_gone() {
  struct stat mine {
  }, there{};
  const bool named = ::lstat(path_.c_str(), &there) == 0;
  if (named && ::fstat(fd_, &mine) == 0 && mine.st_ino == there.st_ino &&
      mine.st_dev == there.st_dev) {
    return true;
  }
  deleted_ = true;
  close();
  fd_ = open_to_append(path_);
  return fd_ >= 0;
}

bool MetricsFile::write_waiting() {
  if (waiting_.empty()) return true;
  if (!reopen_if_gone() || !append_whole(fd_, waiting_)) return false;
  waiting_.clear();
  waiting_lines_ = 0;
  return true;
}

void MetricsFile::append(const std::string& line) {
  if (path_.empty()) return;
  waiting_ += line;
  ++waiting_lines_;
  const bool was_deleted = deleted_;
  if (write_waiting()) {
    if (failing_) log_.info("{}: can be written again", path_);
    if (deleted_ && !was_deleted) log_.warn("{}: was deleted; earlier lines are lost", path_);
    failing_ = false;
    return;
  }
  error_ = std::strerror(errno);
  if (!failing_) {
    log_.warn("{}: cannot be written: {}; training continues, and lines wait until it can", path_,
              error_);
  }
  failing_ = true;
  if (waiting_.size() <= kMostWaiting) return;
  discarded_ += waiting_lines_;
  waiting_.clear();
  waiting_lines_ = 0;
}

std::string MetricsFile::missing() {
  if (path_.empty()) return "";
  if (!write_waiting()) error_ = std::strerror(errno);
  std::string what;
  if (deleted_) what += ", those before it was deleted";
  if (waiting_lines_ + discarded_ > 0) {
    what += fmt::format(", {} that could not be written ({})", waiting_lines_ + discarded_, error_);
  }
  return what.empty() ? "" : fmt::format("{} lacks lines: {}", path_, what.substr(2));
}

}  // namespace dlrm
