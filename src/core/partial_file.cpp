#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include <fcntl.h>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/core/replace_file.h"

namespace dlrm {
namespace {

constexpr const char* kSuffix = ".partial";

// Global, because a signal handler cannot be passed an argument.
std::array<std::atomic<const char*>, 32> names;  // of partial files, and of their locks
static_assert(std::atomic<const char*>::is_always_lock_free);

int remember(const char* name) {
  for (size_t i = 0; i < names.size(); ++i) {
    const char* none = nullptr;
    if (names[i].compare_exchange_strong(none, name)) return static_cast<int>(i);
  }
  return -1;  // more files than the handler can remove
}

const std::string& replaceable(const std::string& target) {
  std::error_code error;
  const auto status = std::filesystem::status(target, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw usage_error("{}: is there and is no regular file: name another output", target);
  }
  return target;
}

std::string new_name(const std::string& target) {
  std::random_device random;
  return fmt::format("{}.{:08x}{:08x}{}", target, random(), random(), kSuffix);
}

void on_signal(int signal) {
  for (const auto& name : names) {
    if (const char* path = name.load()) unlink(path);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

PartialFile::PartialFile(const std::string& target)
    : target_(replaceable(target)),
      name_(new_name(target)),
      lock_(target),
      slot_(remember(name_.c_str())),
      lock_slot_(remember(lock_.name().c_str())) {
  if (lock_.held()) remove_interrupted(target, 16, kSuffix);
  // Whoever opens the name reports an error.
  const int fd = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd >= 0) ::close(fd);
}

PartialFile::~PartialFile() {
  if (!published_) unlink(name_.c_str());
  for (const int slot : {slot_, lock_slot_}) {
    if (slot >= 0) names[static_cast<size_t>(slot)].store(nullptr);
  }
}

void PartialFile::publish(File& file) {
  file.sync();
  if (std::rename(name_.c_str(), target_.c_str()) != 0) {
    throw run_error("{}: cannot rename to {}: {}", name_, target_, std::strerror(errno));
  }
  published_ = true;
  const std::string folder = std::filesystem::path(target_).parent_path().string();
  try {
    sync_folder(folder.empty() ? "." : folder);
  } catch (const Error&) {
    // The file has its final name already. A folder may be writable but not readable.
  }
}

void remove_partial_files_on_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  }
}

}  // namespace dlrm
