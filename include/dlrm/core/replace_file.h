#pragma once
#include <cstdio>
#include <string>
#include <string_view>

namespace dlrm {

/// A file written beside the one it is to replace, and put in its place by commit(); without that
/// it goes again. Errors are run_errors naming the file.
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

/// Writes a whole file in one move.
void replace_file(const std::string& path, std::string_view text);

}  // namespace dlrm
