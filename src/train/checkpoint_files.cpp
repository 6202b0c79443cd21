#include "checkpoint_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <isa-l/crc.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlrm/core/error.h"

namespace dlrm {

namespace fs = std::filesystem;

namespace {

constexpr const char* kTemporary = ".tmp_step_";

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw run_error("{}: cannot {}: {}", path, what, std::strerror(errno));
}

}  // namespace

void Crc32c::add(const void* data, size_t bytes) {
  // The library counts in int and takes a pointer to non-const that it only reads.
  constexpr size_t kMost = size_t{1} << 30;
  auto* at = const_cast<unsigned char*>(static_cast<const unsigned char*>(data));
  while (bytes > 0) {
    const size_t part = std::min(bytes, kMost);
    state_ = crc32_iscsi(at, static_cast<int>(part), state_);
    at += part;
    bytes -= part;
  }
}

File::File(const std::string& path, Mode mode) : path_(path) {
  const int flags = mode == Mode::kRead        ? O_RDONLY
                    : mode == Mode::kReadWrite ? O_RDWR
                                               : O_RDWR | O_CREAT | O_TRUNC;
  fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd_ < 0) fail(path, mode == Mode::kCreate ? "create" : "open");
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

int64_t File::size() const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail(path_, "stat");
  return info.st_size;
}

void File::read(void* data, size_t bytes, int64_t offset) const {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd_, at, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path_, "read");
    if (got == 0) throw run_error("{}: ends at byte {}, too short", path_, offset);
    at += got;
    offset += got;
    bytes -= static_cast<size_t>(got);
  }
}

void File::write(const void* data, size_t bytes, int64_t offset) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::pwrite(fd_, at, bytes, offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail(path_, "write");
    at += put;
    offset += put;
    bytes -= static_cast<size_t>(put);
  }
}

void File::sync() {
  if (::fsync(fd_) != 0) fail(path_, "sync");
}

std::string rank_file_name(int rank) { return fmt::format("rank_{:05}.h5", rank); }

std::string step_folder_name(int64_t step) { return fmt::format("step_{:09}", step); }

std::optional<int64_t> step_of(const std::string& name) {
  constexpr size_t kPrefix = 5;
  constexpr size_t kMostDigits = 18;
  const size_t digits = name.size() < kPrefix ? 0 : name.size() - kPrefix;
  if (name.compare(0, kPrefix, "step_") != 0 || digits < 9 || digits > kMostDigits) return {};
  if (name.find_first_not_of("0123456789", kPrefix) != std::string::npos) return {};
  return std::stoll(name.substr(kPrefix));
}

std::vector<std::string> list_checkpoints(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (step_of(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end(),
            [](const std::string& a, const std::string& b) { return *step_of(a) > *step_of(b); });
  return names;
}

uint32_t crc32c_of_file(const std::string& path) {
  const File file(path, File::Mode::kRead);
  const int64_t size = file.size();
  std::vector<char> chunk(std::min(kCheckpointChunk, static_cast<size_t>(size)));
  Crc32c crc;
  for (int64_t at = 0; at < size;) {
    const size_t bytes = std::min(chunk.size(), static_cast<size_t>(size - at));
    file.read(chunk.data(), bytes, at);
    crc.add(chunk.data(), bytes);
    at += static_cast<int64_t>(bytes);
  }
  return crc.value();
}

std::optional<std::string> read_small_file(const std::string& path) {
  try {
    const File file(path, File::Mode::kRead);
    std::string text(static_cast<size_t>(file.size()), '\0');
    file.read(text.data(), text.size(), 0);
    return text;
  } catch (const Error&) {
    return {};
  }
}

void write_small_file(const std::string& path, const std::string& text) {
  File file(path, File::Mode::kCreate);
  file.write(text.data(), text.size(), 0);
  file.sync();
}

void make_folders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path, error)) {
    throw run_error("{}: cannot create this folder: {}", path,
                    error ? error.message() : "something else has its name");
  }
}

void sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail(path, "open");
  const int rc = ::fsync(fd);
  const int why = errno;
  ::close(fd);
  // Some file systems have nothing to sync in a folder and say so.
  if (rc == 0 || why == EINVAL || why == ENOTSUP) return;
  errno = why;
  fail(path, "sync");
}

void exchange_or_rename(const std::string& from, const std::string& to) {
  if (::access(to.c_str(), F_OK) != 0) {
    if (::rename(from.c_str(), to.c_str()) != 0) fail(from, "rename");
    return;
  }
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
  // File systems without an exchange: the old one moves aside for a moment.
  const std::string aside = from + ".old";
  if (::rename(to.c_str(), aside.c_str()) != 0) fail(to, "rename");
  if (::rename(from.c_str(), to.c_str()) != 0) fail(from, "rename");
  if (::rename(aside.c_str(), from.c_str()) != 0) fail(aside, "rename");
}

void remove_leftovers(const std::string& directory) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().rfind(kTemporary, 0) == 0) found.push_back(it->path());
  }
  for (const fs::path& path : found) fs::remove_all(path, error);
}

void remove_checkpoint(const std::string& directory, const std::string& name) {
  const std::string from = directory + "/" + name;
  const std::string aside = directory + "/.tmp_" + name + ".old";
  std::error_code error;
  fs::remove_all(aside, error);
  if (::rename(from.c_str(), aside.c_str()) != 0) fail(from, "remove");
  fs::remove_all(aside, error);
  if (error) throw run_error("{}: cannot remove: {}", aside, error.message());
}

}  // namespace dlrm
