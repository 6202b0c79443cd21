#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace dlrm {

/// An open file, read and written at given offsets. Errors are run_errors that name the file.
class File {
 public:
  enum class Mode { kRead, kReadWrite, kCreate };
  File(const std::string& path, Mode mode);
  /// Returns no value if the file cannot be opened or created; errno then gives the reason.
  static std::optional<File> try_open(const std::string& path, Mode mode);
  /// Creates a file without a name in the folder of `path`. Returns no value if that fails.
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
  /// Copies the first `bytes` bytes of `from` to `offset`, within the kernel if possible.
  void copy(const File& from, int64_t bytes, int64_t offset);
  void sync();
  /// Lets the system begin to write what is only in memory, so that a later sync() takes less time.
  void start_sync();
  /// From now on reads and writes bypass the system's cache (O_DIRECT), if the file system can.
  /// Then memory, offsets and sizes are multiples of 4096 bytes.
  void bypass_cache();
  /// Reserves the disk's space up to `bytes`, in one piece if possible, if the file system can and
  /// has the space. The file may become longer.
  void reserve(int64_t bytes);

 private:
  friend std::string read_text(const std::string& path, size_t most);
  File(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_ = -1;
};

/// Reads a whole small file. Returns no value if it cannot be read.
std::optional<std::string> read_file(const std::string& path);
/// The whole of a text file that a user names. usage_error if it cannot be read, is not a regular
/// file (a pipe or a device may never end), or is longer than `most` bytes.
std::string read_text(const std::string& path, size_t most);
/// Writes and syncs a small file.
void write_file(const std::string& path, const std::string& text);

/// Creates a folder and its missing parents. Does nothing if it exists.
void make_folders(const std::string& path);
/// Syncs a folder, so that names in it survive a crash. Does nothing on file systems that cannot
/// sync folders.
void sync_folder(const std::string& path);
/// Exchanges `from` and `to`. If `to` does not exist, renames `from` to `to`.
void exchange_or_rename(const std::string& from, const std::string& to);

}  // namespace dlrm
