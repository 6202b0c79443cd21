#include "monitor.h"

namespace dlrm::comm {

void Monitor::add(FailureSource& source) {
  const std::lock_guard lock(sources_mutex_);
  sources_.push_back(&source);
}

void Monitor::remove(FailureSource& source) {
  const std::lock_guard lock(sources_mutex_);
  std::erase(sources_, &source);
}

std::string Monitor::failure() const {
  const std::lock_guard lock(sources_mutex_);
  for (FailureSource* source : sources_) {
    std::string failure = source->failure();
    if (!failure.empty()) return failure;
  }
  return "";
}

std::unique_ptr<CallLog> Monitor::make_call_log() {
  const std::lock_guard lock(logs_mutex_);
  auto log = std::make_unique<CallLog>(next_id_++);
  logs_.push_back(log.get());
  return log;
}

void Monitor::remove(const CallLog& log) {
  const std::lock_guard lock(logs_mutex_);
  std::erase(logs_, &log);
}

}  // namespace dlrm::comm
