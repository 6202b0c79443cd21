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
constexpr const char* kBest = "/best";

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

std::optional<std::string> best_checkpoint(const std::string& directory) {
  std::error_code error;
  const fs::path target = fs::read_symlink(directory + kBest, error);
  if (error || !step_number(target.string())) return {};
  return target.string();
}

void link_best(const std::string& directory, const std::string& name) {
  const std::string link = directory + kBest;
  // Under a name that remove_leftovers() removes after a crash.
  const std::string fresh = directory + "/" + kTemporary + "best";
  std::error_code error;
  fs::remove_all(fresh, error);
  fs::create_symlink(name, fresh, error);
  if (!error) fs::rename(fresh, link, error);
  if (error) throw run_error("{}: cannot link to {}: {}", link, name, error.message());
}

void unlink_best(const std::string& directory, bool always) {
  std::error_code error;
  const std::string link = directory + kBest;
  if (!fs::is_symlink(link, error)) return;
  if (always || !fs::exists(link, error)) fs::remove(link, error);
}

std::string resolve_link(const std::string& path) {
  std::error_code error;
  fs::path link = fs::path(path).lexically_normal();
  if (!link.has_filename()) link = link.parent_path();
  const fs::path target = fs::read_symlink(link, error);
  if (error || !step_number(target.string())) return path;
  return (link.parent_path() / target).string();
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
