#pragma once
#include <cstdint>
#include <string>

#include "dlrm/core/log.h"

namespace dlrm {

/// Appends lines to a file, each by one write, so that readers and crashes see whole lines. Lines
/// that cannot be written (a full disk, a deleted folder) wait and are written together with a
/// later one. Nothing is thrown then: training goes on. The log says it once, and once more if
/// writing works again.
class MetricsFile {
 public:
  explicit MetricsFile(const Log& log) : log_(log) {}
  ~MetricsFile() { close(); }
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Opens `path`, or creates it. run_error if it cannot be opened or is a link.
  void open(const std::string& path);
  /// Does nothing before open().
  void append(const std::string& line);
  /// Tries once more to write what waits. Returns what is missing from the file, or an empty text.
  std::string missing();

 private:
  bool write_waiting();
  /// Opens the file again if it was deleted or replaced. False, and errno, if that fails.
  bool reopen_if_gone();
  void close();

  Log log_;
  std::string path_;
  int fd_ = -1;
  std::string waiting_;
  int64_t waiting_lines_ = 0;
  bool failing_ = false;   // while lines wait
  std::string error_;      // the last one
  bool deleted_ = false;   // the file, with lines in it
  int64_t discarded_ = 0;  // lines, because too many waited
};

}  // namespace dlrm
