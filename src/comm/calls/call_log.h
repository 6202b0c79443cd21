#pragma once
#include <array>
#include <atomic>
#include <cstdint>

namespace dlrm::comm {

/// The calls that a rank has entered on one communicator. The watchdog's thread may read them at
/// any time.
class CallLog {
 public:
  static constexpr uint64_t kKept = 8;
  struct Entry {
    const char* name = "";
    int64_t bytes = 0;
  };

  explicit CallLog(int id) : id_(id) {}

  /// Number of the communicator within its world, equal on all ranks.
  int id() const { return id_; }
  /// Number of calls entered. The last one has this number; the first is 1.
  uint64_t entered() const { return entered_.load(std::memory_order_acquire); }
  /// Returns call `number`, one of the last kKept.
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

}  // namespace dlrm::comm
