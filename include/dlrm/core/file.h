#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace dlrm {

/// An open file, read and written at given places. Errors are run_errors that name the file.
class File {
 public:
  enum class Mode { kRead, kReadWrite, kCreate };
  File(const std::string& path, Mode mode);
  /// None if the file cannot be opened or created; errno tells why.
  static std::optional<File> try_open(const std::string& path, Mode mode);
  /// A file without a name in the folder of `path`. None if it cannot be created.
  static std::optional<File> try_nameless(const std::string& path);
  File(File&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~File();

  const std::string& path() const { return path_; }
  int descriptor() const { return fd_; }
  int64_t size() const;
  /// Reads exactly `bytes` bytes at `offset`.
  void read(void* data, size_t bytes, int64_t offset) const;
  void write(const void* data, size_t bytes, int64_t offset);
  /// Copies the first `bytes` bytes of `from` to `offset`, inside the kernel if it can.
  void copy(const File& from, int64_t bytes, int64_t offset);
  void sync();

 private:
  File(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_ = -1;
};

/// The whole of a small file. None if it cannot be read.
std::optional<std::string> read_file(const std::string& path);
/// Writes and syncs a small file.
void write_file(const std::string& path, const std::string& text);

/// Creates a folder and those above it; nothing happens if it exists.
void make_folders(const std::string& path);
/// Makes the names in a folder permanent. File systems that cannot sync folders are ignored.
void sync_folder(const std::string& path);
/// Puts `from` in the place of `to`. What was at `to` is at `from` afterwards.
void exchange_or_rename(const std::string& from, const std::string& to);

}  // namespace dlrm
