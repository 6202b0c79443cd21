#pragma once
#include <array>
#include <atomic>
#include <cstdint>

namespace dlrm {

/// The calls that a rank has entered on one communicator, as its watchdog thread may read them at
/// any time.
class Activity {
 public:
  static constexpr uint64_t kKept = 8;
  struct Entry {
    const char* name = "";
    int64_t bytes = 0;
  };

  explicit Activity(int id) : id_(id) {}

  /// Number of the communicator among those of its world, the same on every rank.
  int id() const { return id_; }
  /// Calls entered so far; the last is number entered() (from 1).
  uint64_t entered() const { return entered_.load(std::memory_order_acquire); }
  /// Call `number`, one of the last kKept.
  Entry call(uint64_t number) const {
    const Slot& slot = slots_[number % kKept];
    return {slot.name.load(std::memory_order_relaxed), slot.bytes.load(std::memory_order_relaxed)};
  }

  void enter(const char* name, int64_t bytes) {
    const uint64_t number = entered_.load(std::memory_order_relaxed) + 1;
    Slot& slot = slots_[number % kKept];
    slot.name.store(name, std::memory_order_relaxed);
    slot.bytes.store(bytes, std::memory_order_relaxed);
    entered_.store(number, std::memory_order_release);
  }

 private:
  struct Slot {
    std::atomic<const char*> name{""};
    std::atomic<int64_t> bytes{0};
  };
  const int id_;
  std::atomic<uint64_t> entered_{0};
  std::array<Slot, kKept> slots_;
};

}  // namespace dlrm
