#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/types.h>

namespace dlrm {

struct GuardedRange;

/// A file mapped for reading. Pages that can no longer be read (the file was cut short, or its disk
/// fails) become zeros and do not end the process. check_whole() then throws.
class MappedFile {
 public:
  /// Throws usage_error if the path is no readable file.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  /// The elements of `name` at `offset`; null if there are none. Throws usage_error if they are not
  /// within the file.
  const std::byte* column(const std::string& name, int64_t offset, int64_t elements,
                          int64_t element_bytes) const;
  /// Throws run_error if the file was cut short, or a page of it could not be read.
  void check_whole() const;
  /// Throws run_error if a page of it could not be read. It asks the system nothing.
  void check_pages() const;

 private:
  std::string path_;
  int64_t bytes_ = 0;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  void* data_ = nullptr;
  GuardedRange* range_ = nullptr;
};

}  // namespace dlrm
