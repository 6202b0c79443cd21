#include "dlrm/core/replace_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <vector>

#include <fcntl.h>

#include "dlrm/core/error.h"

namespace dlrm {

namespace {

constexpr const char* kSuffix = ".tmp";
constexpr size_t kDigits = 8;

/// Creates a file of a name that nobody can predict. Follows no link and opens no file that is
/// there. Returns its name.
std::string create_beside(const std::string& path, std::FILE*& file) {
  const std::string name = fmt::format("{}.{:08x}{}", path, std::random_device()(), kSuffix);
  const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  file = fd < 0 ? nullptr : ::fdopen(fd, "w");
  if (!file) throw run_error("{}: cannot create: {}", path, std::strerror(errno));
  return name;
}

/// True for devices and pipes, and for /dev/stdout and its like, whatever they lead to. A rename
/// would put a file in their place.
bool is_written_in_place(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status target = fs::status(path, error);
  if (!fs::exists(target)) return false;
  if (!fs::is_regular_file(target)) return true;
  const std::string folder = fs::canonical(fs::absolute(path, error).parent_path(), error);
  return fs::is_symlink(fs::symlink_status(path, error)) &&
         (folder == "/dev" || folder.starts_with("/proc/"));
}

bool is_interrupted(const std::string& name, const std::string& target, size_t digits,
                    const std::string& suffix) {
  const size_t first = target.size() + 1;
  return name.size() == first + digits + suffix.size() && name.starts_with(target + ".") &&
         name.ends_with(suffix) &&
         name.find_first_not_of("0123456789abcdef", first) == first + digits;
}

}  // namespace

FileReplacement::FileReplacement(const std::string& path)
    : path_(path), temporary_(create_beside(path, file_)) {}

FileReplacement::~FileReplacement() {
  if (!file_) return;
  std::fclose(file_);
  std::remove(temporary_.c_str());
}

void FileReplacement::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) == text.size()) return;
  throw run_error("{}: cannot write: {}", path_, std::strerror(errno));
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

void write_text(const std::string& path, std::string_view text) {
  if (!is_written_in_place(path)) return replace_file(path, text);
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) throw run_error("{}: cannot open: {}", path, std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written) {
    throw run_error("{}: cannot write: {}", path, std::strerror(errno));
  }
}

void remove_interrupted_replacements(const std::string& path) {
  remove_interrupted(path, kDigits, kSuffix);
}

void remove_interrupted(const std::string& path, size_t digits, const std::string& suffix) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path target = fs::absolute(path, error);
  std::vector<fs::path> found;
  for (fs::directory_iterator it(target.parent_path(), error), end; !error && it != end;
       it.increment(error)) {
    if (is_interrupted(it->path().filename(), target.filename(), digits, suffix))
      found.push_back(it->path());
  }
  for (const fs::path& name : found) fs::remove(name, error);
}

}  // namespace dlrm
