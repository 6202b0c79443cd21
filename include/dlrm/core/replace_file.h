#pragma once
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

#include "dlrm/core/file.h"
#include "dlrm/core/file_lock.h"

namespace dlrm {

/// Writes text to a temporary file, which commit() renames to `path`. If commit() is not called,
/// the destructor removes it. Nothing is synced. Errors are run_errors naming the file.
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
  std::FILE* file_ = nullptr;
  std::string temporary_;
};

/// Replaces the whole text of a file.
void replace_file(const std::string& path, std::string_view text);

/// Writes a text to where a user wants it: replaces the file, but writes to a device or a pipe in
/// place, such as /dev/null and /dev/stdout. Errors are run_errors naming the file.
void write_text(const std::string& path, std::string_view text);

/// Removes the temporary files of replacements of `path` that were killed. No other process may be
/// replacing it.
void remove_interrupted_replacements(const std::string& path);
/// Removes the files `<path>.<digits><suffix>` with this number of hexadecimal digits.
void remove_interrupted(const std::string& path, size_t digits, const std::string& suffix);

/// Owns a new name `<target>.*.partial`, which nobody can foresee, of a file that is being written.
/// publish() renames it to the target. If publish() is not called, the destructor removes it. After
/// remove_partial_files_on_signals() a signal removes it, too. If the target is there and is no
/// regular file, such as /dev/null, or another program writes it, the constructor throws a
/// usage_error. Removes the partial files of the target that killed programs left.
class PartialFile {
 public:
  explicit PartialFile(const std::string& target);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::string& name() const { return name_; }
  /// Syncs `file`, which must have name() open, renames it to the target, and syncs the folder.
  void publish(File& file);

 private:
  std::string target_, name_;
  FileLock lock_;
  const int slot_, lock_slot_;
  bool published_ = false;
};

/// From now on SIGINT, SIGTERM and SIGHUP first remove the existing partial files, and then end the
/// process. Ignored signals stay ignored.
void remove_partial_files_on_signals();

}  // namespace dlrm
