#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace dlrm {

/// Capacities of a batch's lists on a device, whose lengths depend on the ids. A recorded step
/// serves every batch whose lists fit, so a capacity only grows: a list that does not fit gets
/// list_room(), and whenever that was not enough, twice the deviations. Batches of another size
/// have capacities of their own.
///
/// Two ranks that see the same counts of a list, batch by batch, have the same capacity for it.
class ListCapacities {
 public:
  explicit ListCapacities(size_t lists = 0) : lists_(lists) {}

  /// From now on of() returns capacities. Until then it returns the counts themselves.
  void start() { started_ = true; }
  bool started() const { return started_; }
  /// Selects the capacities of batches of `samples` samples. Those of the last few sizes are kept.
  void begin(int64_t samples);
  /// The capacity of a list that has `count` entries, and at most `most` in any batch of this size.
  /// Threads may ask for different lists.
  int64_t of(size_t list, int64_t count, int64_t most = std::numeric_limits<int32_t>::max());

 private:
  struct Capacity {
    int64_t entries = 0;
    int doublings = 0;  ///< of the slack, when it grows next
  };
  struct OfSize {
    int64_t samples;
    std::vector<Capacity> capacities;  ///< by list
  };

  const size_t lists_;
  bool started_ = false;
  std::vector<OfSize> sizes_;  ///< most recently used first
};

}  // namespace dlrm
