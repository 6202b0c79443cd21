#pragma once
#include <memory>
#include <mutex>
#include <vector>

namespace dlrm {

/// Working memory of calls that run at once. A call takes an object that an earlier one gave back,
/// or a new one.
template <class T>
class ScratchPool {
 public:
  std::unique_ptr<T> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<T>();
    std::unique_ptr<T> scratch = std::move(free_.back());
    free_.pop_back();
    return scratch;
  }
  void give_back(std::unique_ptr<T> scratch) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
};

}  // namespace dlrm
