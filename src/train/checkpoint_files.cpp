#include "checkpoint_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "dlrm/core/error.h"

namespace dlrm {

namespace fs = std::filesystem;

namespace {

constexpr const char* kTemporary = ".tmp_step_";

}  // namespace

std::string rank_file_name(int rank) { return fmt::format("rank_{:05}.h5", rank); }

std::string step_folder_name(int64_t step) { return fmt::format("step_{:09}", step); }

std::optional<int64_t> step_number(const std::string& name) {
  constexpr size_t kPrefix = 5;
  constexpr size_t kMostDigits = 18;
  const size_t digits = name.size() < kPrefix ? 0 : name.size() - kPrefix;
  if (name.compare(0, kPrefix, "step_") != 0 || digits < 9 || digits > kMostDigits) return {};
  if (name.find_first_not_of("0123456789", kPrefix) != std::string::npos) return {};
  return std::stoll(name.substr(kPrefix));
}

std::string folder_name(const std::string& path) {
  const fs::path clean = fs::path(path).lexically_normal();
  return (clean.has_filename() ? clean : clean.parent_path()).filename().string();
}

std::vector<std::string> list_checkpoints(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (step_number(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return *step_number(a) > *step_number(b);
  });
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
  if (::rename(from.c_str(), aside.c_str()) != 0) {
    throw run_error("{}: cannot remove: {}", from, std::strerror(errno));
  }
  fs::remove_all(aside, error);
  if (error) throw run_error("{}: cannot remove: {}", aside, error.message());
}

}  // namespace dlrm
