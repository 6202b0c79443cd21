#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace dlrm {

/// Times of a FolderLock. Tests shorten them.
struct LockTiming {
  using Time = std::chrono::milliseconds;
  Time patience{3000};  ///< for a holder that is about to end
  Time beat{5000};      ///< between two signs of life of a holder
  Time silence{30000};  ///< after which a holder on another host counts as dead
};

/// Reserves a folder for one process. The folder must exist. The lock is the file
/// `.dlrm-train.lock` in it, under a lock of the kernel (fcntl), which ends with the process
/// however that ends, and which NFSv4 carries to other hosts. The file names its holder, who
/// rewrites it at every beat. Therefore a holder on another host is recognised even if the file
/// system does not carry locks, and a dead holder is always recognised.
class FolderLock {
 public:
  /// A usage_error names the holder: its host, process and start. A run_error if the file cannot be
  /// written.
  explicit FolderLock(const std::string& folder, LockTiming timing = {});
  /// Removes the file.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// False if the file was deleted or replaced, for example together with its folder.
  bool in_place() const;

 private:
  /// Opens the file and takes the kernel's lock. False if another process has it.
  bool open_and_lock();
  /// Whether the file names another holder that may live. Waits for a beat if that is not known.
  bool has_live_holder() const;
  void write_record();
  [[noreturn]] void refuse();
  void keep_beating();
  void close();

  std::string path_;
  LockTiming timing_;
  int fd_ = -1;
  bool kernel_locks_ = true;  // the file system has them
  std::string identity_;      // the record, but for its beat
  int64_t beats_ = 0;

  std::thread heart_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
};

}  // namespace dlrm
