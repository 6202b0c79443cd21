#pragma once
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "dlrm/device/device.h"

namespace dlrm::comm {

/// Recycles events of one device. Thread-safe.
class EventPool {
 public:
  explicit EventPool(Device& device) : device_(device) {}

  std::unique_ptr<Event> acquire() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return device_.make_event();
    std::unique_ptr<Event> event = std::move(free_.back());
    free_.pop_back();
    return event;
  }
  void release(std::unique_ptr<Event> event) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(event));
  }

 private:
  Device& device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Event>> free_;
};

}  // namespace dlrm::comm
