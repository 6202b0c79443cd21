#pragma once
#include <cstdio>
#include <string>
#include <string_view>

#include "dlrm/core/file.h"

namespace dlrm {

/// Writes text to a temporary file, which takes the place of `path` in commit(). Without a commit
/// it is removed. Nothing is synced. Errors are run_errors naming the file.
class FileReplacement {
 public:
  explicit FileReplacement(const std::string& path);
  ~FileReplacement();
  FileReplacement(const FileReplacement&) = delete;
  FileReplacement& operator=(const FileReplacement&) = delete;

  void write(std::string_view text);
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  std::FILE* file_ = nullptr;
};

/// Replaces the whole text of a file.
void replace_file(const std::string& path, std::string_view text);

/// The name `<target>.partial` of a file that is being written. The file takes the target's name in
/// publish(). Without that it is removed; also by a signal, once remove_partial_files_on_signals()
/// has been called.
class PartialFile {
 public:
  explicit PartialFile(const std::string& target);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::string& name() const { return name_; }
  /// Syncs `file`, which has name() open, gives it the target's name, and syncs the folder.
  void publish(File& file);

 private:
  void forget();

  std::string target_, name_;
  int slot_;
  bool published_ = false;
};

/// From now on SIGINT, SIGTERM and SIGHUP remove the partial files that exist, and then end the
/// process as they would have. Signals that are ignored stay ignored.
void remove_partial_files_on_signals();

}  // namespace dlrm
