#include "dlrm/core/file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlrm/core/error.h"

namespace dlrm {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw run_error("{}: cannot {}: {}", path, what, std::strerror(errno));
}

}  // namespace

File::File(const std::string& path, Mode mode) {
  std::optional<File> file = try_open(path, mode);
  if (!file) fail(path, mode == Mode::kCreate ? "create" : "open");
  *this = std::move(*file);
}

std::optional<File> File::try_open(const std::string& path, Mode mode) {
  // To open a pipe for reading would otherwise wait for its writer. Files are not affected.
  const int flags = mode == Mode::kRead        ? O_RDONLY | O_NONBLOCK | O_NOCTTY
                    : mode == Mode::kReadWrite ? O_RDWR
                                               : O_RDWR | O_CREAT | O_TRUNC;
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd < 0) return {};
  return File(path, fd);
}

std::optional<File> File::try_nameless(const std::string& path) {
  std::string name = path + ".XXXXXX";
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return {};
  ::unlink(name.c_str());
  return File(path, fd);
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

int64_t File::size() const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail(path_, "stat");
  return info.st_size;
}

void File::read(void* data, size_t bytes, int64_t offset) const {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd_, at, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path_, "read");
    if (got == 0) throw run_error("{}: ends at byte {}, too short", path_, offset);
    at += got;
    offset += got;
    bytes -= static_cast<size_t>(got);
  }
}

void File::write(const void* data, size_t bytes, int64_t offset) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::pwrite(fd_, at, bytes, offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail(path_, "write");
    if (put == 0) throw run_error("{}: cannot write {} bytes", path_, bytes);
    at += put;
    offset += put;
    bytes -= static_cast<size_t>(put);
  }
}

void File::copy(const File& from, int64_t bytes, int64_t offset) {
  off_t source = 0;
  while (source < bytes) {
    off_t target = offset + source;
    const ssize_t copied =
        ::copy_file_range(from.fd_, &source, fd_, &target, static_cast<size_t>(bytes - source), 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) break;  // the file system does not support it
  }
  std::vector<char> buffer(source < bytes ? 4 << 20 : 0);
  while (source < bytes) {
    const size_t part = std::min(buffer.size(), static_cast<size_t>(bytes - source));
    from.read(buffer.data(), part, source);
    write(buffer.data(), part, offset + source);
    source += static_cast<off_t>(part);
  }
}

void File::start_sync() { sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE); }

void File::bypass_cache() { ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_DIRECT); }

void File::reserve(int64_t bytes) {
  const int64_t before = size();
  if (::fallocate(fd_, 0, 0, bytes) == 0) return;
  // A part may have been reserved, for which others may have a use. Writes tell what is wrong.
  if (size() > before && ::ftruncate(fd_, before) != 0) fail(path_, "cut");
}

void File::sync() {
  if (::fsync(fd_) != 0) fail(path_, "sync");
}

std::string read_text(const std::string& path, size_t most) {
  // Opening a pipe would wait for its writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) throw usage_error("{}: cannot be read: {}", path, std::strerror(errno));
  const File file(path, fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    throw usage_error("{}: cannot be read: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    throw usage_error("{}: is {}; needs a text file", path,
                      S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
  }
  std::string text;
  constexpr size_t kBlock = size_t{1} << 16;
  for (size_t got = kBlock; got > 0;) {  // files of /proc do not tell their size
    const size_t before = text.size();
    text.resize(before + kBlock);
    ssize_t count;
    do {
      count = ::pread(fd, text.data() + before, kBlock, static_cast<off_t>(before));
    } while (count < 0 && errno == EINTR);
    if (count < 0) throw usage_error("{}: cannot be read: {}", path, std::strerror(errno));
    got = static_cast<size_t>(count);
    text.resize(before + got);
    if (text.size() > most) throw usage_error("{}: is longer than {} bytes", path, most);
  }
  return text;
}

std::optional<std::string> read_file(const std::string& path) {
  constexpr size_t kMost = size_t{64} << 20;
  try {
    return read_text(path, kMost);
  } catch (const Error&) {
    return {};
  }
}

void write_file(const std::string& path, const std::string& text) {
  File file(path, File::Mode::kCreate);
  file.write(text.data(), text.size(), 0);
  file.sync();
}

void make_folders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw run_error("{}: cannot create this folder: {}", path, error.message());
}

void sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail(path, "open");
  const int rc = ::fsync(fd);
  const int why = errno;
  ::close(fd);
  // Some file systems report that there is nothing to sync in a folder.
  if (rc == 0 || why == EINVAL || why == ENOTSUP) return;
  errno = why;
  fail(path, "sync");
}

void exchange_or_rename(const std::string& from, const std::string& to) {
  if (::access(to.c_str(), F_OK) != 0) {
    if (::rename(from.c_str(), to.c_str()) != 0) fail(from, "rename");
    return;
  }
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  // The file system has no exchange, so the old file is renamed for a moment.
  const std::string aside = from + ".old";
  if (::rename(to.c_str(), aside.c_str()) != 0) fail(to, "rename");
  if (::rename(from.c_str(), to.c_str()) != 0) fail(from, "rename");
  if (::rename(aside.c_str(), from.c_str()) != 0) fail(aside, "rename");
}

}  // namespace dlrm
