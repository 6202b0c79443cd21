#pragma once
#include <string>

namespace dlrm {

/// Keeps a file to one writer, until the destructor or the end of the process. A hidden file beside
/// it has the lock. dlrm/dataset/files.py takes the same lock.
class FileLock {
 public:
  /// If another has the lock, a usage_error that names its process. Where no lock can be made, for
  /// example because the folder is missing, the file is not locked.
  explicit FileLock(const std::string& target);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  const std::string& name() const { return name_; }
  /// Nobody else has the lock. False where no lock can be made.
  bool held() const { return held_; }

 private:
  std::string name_;
  int fd_ = -1;
  bool held_ = false;
};

}  // namespace dlrm
