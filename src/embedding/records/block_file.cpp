#include "block_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlrm/core/error.h"

#include "zeroed_array.h"

namespace dlrm {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPrefix = "dlrm-rows.";
constexpr int kMostThreads = 16;

/// A file loses its name immediately after it is created. A process that is killed between the two
/// leaves an empty file. To remove the name of a file of another running job is harmless.
void remove_leftovers(const std::string& directory) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    struct stat info {};
    if (entry.path().filename().string().rfind(kPrefix, 0) == 0 &&
        ::lstat(entry.path().c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0) {
      ::unlink(entry.path().c_str());
    }
  }
}

std::string file_name(std::string name) {
  constexpr size_t kMost = 100;  // names have at most 255 bytes
  std::replace(name.begin(), name.end(), '/', '_');
  return kPrefix + name.substr(0, kMost);
}

File create(const SsdRecordsOptions& options) {
  try {
    make_folders(options.directory);
  } catch (const Error& error) {
    throw usage_error("{}; memory.cached.directory must name a folder on an SSD", error.what());
  }
  remove_leftovers(options.directory);
  std::optional<File> file = File::try_nameless(options.directory + "/" + file_name(options.name));
  if (!file) {
    throw usage_error(
        "{}: cannot create a file here: {}; memory.cached.directory must name a folder on an SSD",
        options.directory, std::strerror(errno));
  }
  return std::move(*file);
}

bool set_direct(const File& file, bool direct) {
  const int flags = ::fcntl(file.descriptor(), F_GETFL);
  const int wanted = direct ? flags | O_DIRECT : flags & ~O_DIRECT;
  return flags >= 0 && ::fcntl(file.descriptor(), F_SETFL, wanted) == 0;
}

/// Some file systems accept the flag and refuse the transfers.
bool accepts_direct(const File& file) {
  if (!set_direct(file, true)) return false;
  const ZeroedArray<std::byte> block(kBlockBytes);
  const bool works = ::pwrite(file.descriptor(), block.data(), kBlockBytes, 0) == kBlockBytes &&
                     ::pread(file.descriptor(), block.data(), kBlockBytes, 0) == kBlockBytes;
  if (!works) set_direct(file, false);
  return ::ftruncate(file.descriptor(), 0) == 0 && works;
}

class DiskFile final : public BlockFile {
 public:
  explicit DiskFile(const SsdRecordsOptions& options)
      : file_(create(options)),
        uring_(options.io_uring),
        direct_(options.direct && accepts_direct(file_)) {
    // Rows that are neighbours in the file are rarely read together.
    if (!direct_) ::posix_fadvise(file_.descriptor(), 0, 0, POSIX_FADV_RANDOM);
  }

  // Space is reserved because a full disk is then found before records are written, and because
  // writes within a file do not block its reads as writes at its end do.
  int resize(int64_t bytes) override {
    struct stat info {};
    if (::fstat(file_.descriptor(), &info) != 0) return errno;
    if (bytes > info.st_size) {
      int rc;
      do {
        rc = ::fallocate(file_.descriptor(), 0, info.st_size, bytes - info.st_size);
      } while (rc != 0 && errno == EINTR);
      if (rc == 0) return 0;
      if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
    }
    return ::ftruncate(file_.descriptor(), bytes) == 0 ? 0 : errno;
  }

  std::unique_ptr<BlockQueue> queue(int depth, View<std::byte> memory) override {
    if (uring_) {
      if (auto queue = make_uring_queue(file_, depth, memory)) return queue;
      uring_ = false;
    }
    return make_thread_queue(file_, std::min(depth, kMostThreads));
  }

  std::string description() const override {
    return fmt::format("{} {} O_DIRECT", uring_ ? "io_uring" : "pread and pwrite",
                       direct_ ? "with" : "without");
  }

 private:
  File file_;
  bool uring_;
  const bool direct_;
};

}  // namespace

std::unique_ptr<BlockFile> open_block_file(const SsdRecordsOptions& options) {
  return std::make_unique<DiskFile>(options);
}

}  // namespace dlrm
