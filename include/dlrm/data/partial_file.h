#pragma once
#include <string>

namespace dlrm {

/// A file being written under the name `<target>.partial`, which takes the target's name when it is
/// whole. Removed where it is not published, on signals too once
/// remove_partial_files_on_signals() was called.
class PartialFile {
 public:
  explicit PartialFile(const std::string& target);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::string& name() const { return name_; }
  /// Syncs the file, which `fd` has open, and gives it the target's name.
  void publish(int fd);

 private:
  void forget();

  std::string target_, name_;
  int slot_;
  bool published_ = false;
};

/// SIGINT, SIGTERM and SIGHUP, unless ignored already, remove the partial files that are there and
/// then end the process as they would have.
void remove_partial_files_on_signals();

}  // namespace dlrm
