#include "dlrm/data/file_io.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "dlrm/core/error.h"

namespace dlrm {

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

void write_at(int fd, const void* data, int64_t bytes, int64_t offset, const std::string& path) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = pwrite(fd, next, static_cast<size_t>(bytes), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      throw run_error("{}: cannot write {} bytes: {}", path, bytes,
                      written < 0 ? std::strerror(errno) : "nothing was taken");
    }
    next += written;
    offset += written;
    bytes -= written;
  }
}

void copy_into(int from, int to, int64_t bytes, int64_t offset, const std::string& path) {
  off_t source = 0;
  while (source < bytes) {
    off_t target = offset + source;
    const ssize_t copied =
        copy_file_range(from, &source, to, &target, static_cast<size_t>(bytes - source), 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) break;  // not on this file system: by hand
  }
  std::vector<char> buffer(source < bytes ? 4 << 20 : 0);
  while (source < bytes) {
    const auto want = std::min<int64_t>(bytes - source, static_cast<int64_t>(buffer.size()));
    const ssize_t got = pread(from, buffer.data(), static_cast<size_t>(want), source);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw run_error("{}: cannot read back what was spooled", path);
    write_at(to, buffer.data(), got, offset + source, path);
    source += got;
  }
}

void publish_file(int fd, const std::string& temporary, const std::string& target) {
  if (fsync(fd) != 0) throw run_error("{}: cannot sync: {}", temporary, std::strerror(errno));
  if (std::rename(temporary.c_str(), target.c_str()) != 0) {
    throw run_error("{}: cannot rename to {}: {}", temporary, target, std::strerror(errno));
  }
  const std::string parent = std::filesystem::path(target).parent_path().string();
  const FileDescriptor folder(open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY));
  if (folder.ok()) fsync(folder.get());
}

}  // namespace dlrm
