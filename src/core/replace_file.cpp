#include "dlrm/core/replace_file.h"

#include <cerrno>
#include <cstring>

#include "dlrm/core/error.h"

namespace dlrm {

FileReplacement::FileReplacement(const std::string& path)
    : path_(path), temporary_(path + ".tmp"), file_(std::fopen(temporary_.c_str(), "w")) {
  if (!file_) throw run_error("{}: cannot create: {}", temporary_, std::strerror(errno));
}

FileReplacement::~FileReplacement() {
  if (!file_) return;
  std::fclose(file_);
  std::remove(temporary_.c_str());
}

void FileReplacement::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) == text.size()) return;
  throw run_error("{}: cannot write: {}", temporary_, std::strerror(errno));
}

void FileReplacement::commit() {
  std::FILE* file = file_;
  file_ = nullptr;
  const bool written = std::fclose(file) == 0;
  if (written && std::rename(temporary_.c_str(), path_.c_str()) == 0) return;
  const int why = errno;
  std::remove(temporary_.c_str());
  throw run_error("{}: cannot write: {}", path_, std::strerror(why));
}

void replace_file(const std::string& path, std::string_view text) {
  FileReplacement file(path);
  file.write(text);
  file.commit();
}

}  // namespace dlrm
