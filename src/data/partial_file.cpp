#include "dlrm/data/partial_file.h"

#include <array>
#include <atomic>
#include <csignal>

#include <unistd.h>

#include "dlrm/data/file_io.h"

namespace dlrm {
namespace {

// A handler gets no argument of ours: what it removes must be reachable from anywhere.
std::array<std::atomic<const char*>, 16> names;
static_assert(std::atomic<const char*>::is_always_lock_free);

int remember(const char* name) {
  for (size_t i = 0; i < names.size(); ++i) {
    const char* none = nullptr;
    if (names[i].compare_exchange_strong(none, name)) return static_cast<int>(i);
  }
  return -1;  // more at once than a handler will remove
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
    : target_(target), name_(target + ".partial"), slot_(remember(name_.c_str())) {}

PartialFile::~PartialFile() {
  if (!published_) unlink(name_.c_str());
  forget();
}

void PartialFile::publish(int fd) {
  publish_file(fd, name_, target_);
  published_ = true;
  forget();
}

void PartialFile::forget() {
  if (slot_ >= 0) names[static_cast<size_t>(slot_)].store(nullptr);
  slot_ = -1;
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
