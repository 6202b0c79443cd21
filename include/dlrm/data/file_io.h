#pragma once
#include <cstdint>
#include <string>
#include <utility>

namespace dlrm {

/// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Writes all of it or throws run_error naming `path`.
void write_at(int fd, const void* data, int64_t bytes, int64_t offset, const std::string& path);

/// Copies bytes [0, bytes) of `from` to `to` at `offset`, inside the kernel where it can.
void copy_into(int from, int to, int64_t bytes, int64_t offset, const std::string& path);

/// fsync of the file, rename to `target`, fsync of the folder: `target` is never seen in parts.
void publish_file(int fd, const std::string& temporary, const std::string& target);

}  // namespace dlrm
