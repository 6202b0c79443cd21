#include "mapped_file.h"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <sys/stat.h>

#include "dlrm/core/error.h"
#include "dlrm/core/file.h"

#include "bus_errors.h"

namespace dlrm {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const auto file = File::try_open(path, File::Mode::kRead);
  struct stat status {};
  if (!file || fstat(file->descriptor(), &status) != 0) {
    throw usage_error("{}: cannot open the dataset: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) throw usage_error("{}: not a file", path);
  if (status.st_size == 0) throw usage_error("{}: not an HDF5 file: it is empty", path);
  bytes_ = status.st_size;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  const auto size = static_cast<size_t>(bytes_);
  void* mapping = mmap(nullptr, size, PROT_READ, MAP_SHARED, file->descriptor(), 0);
  if (mapping == MAP_FAILED) throw run_error("{}: cannot map: {}", path, std::strerror(errno));
  data_ = mapping;
  range_ = guard_range(data_, size);
}

MappedFile::~MappedFile() {
  release_range(range_);
  munmap(data_, static_cast<size_t>(bytes_));
}

const std::byte* MappedFile::column(const std::string& name, int64_t offset, int64_t elements,
                                    int64_t element_bytes) const {
  const __int128 bytes = static_cast<__int128>(elements) * element_bytes;
  if (bytes == 0) return nullptr;
  if (bytes < 0 || offset < 0 || offset > bytes_ || bytes > bytes_ - offset) {
    throw usage_error("{}: {} goes beyond the end of the file (cut short?)", path_, name);
  }
  return static_cast<const std::byte*>(data_) + offset;
}

void MappedFile::check_whole() const {
  struct stat now {};
  const bool there = ::stat(path_.c_str(), &now) == 0;
  // Another file may have its name: this one can still be read.
  const bool same = there && now.st_dev == device_ && now.st_ino == inode_;
  if (same && now.st_size < bytes_) {
    throw run_error("{}: was cut short from {} to {} bytes while it was read", path_, bytes_,
                    now.st_size);
  }
  check_pages();
}

void MappedFile::check_pages() const {
  if (range_->lost.load()) {
    throw run_error("{}: a part of it can no longer be read: it was cut short, or its disk fails",
                    path_);
  }
}

}  // namespace dlrm
