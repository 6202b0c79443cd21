#pragma once
#include <cstdint>

#include "dlrm/core/hash.h"

namespace simt {

/// Small random numbers (SplitMix64), used for orders.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    const uint64_t value = dlrm::mix64(state_);
    state_ += 0x9e3779b97f4a7c15u;
    return value;
  }
  /// A number in [0, bound).
  uint64_t below(uint64_t bound) { return next() % bound; }

 private:
  uint64_t state_;
};

/// 0 .. count-1, each once: forward, backward, or by a stride that shares no factor with count.
class Order {
 public:
  Order() = default;
  Order(uint64_t count, Random& random) : count_(count) {
    if (count < 2) return;
    switch (random.below(4)) {
      case 0:
        return;
      case 1:
        at_ = count - 1;
        step_ = count - 1;
        return;
      default:
        at_ = random.below(count);
        step_ = stride(random);
    }
  }
  uint64_t next() {
    const uint64_t now = at_;
    at_ += step_;
    if (at_ >= count_) at_ -= count_;
    return now;
  }

 private:
  uint64_t stride(Random& random) const {
    constexpr uint64_t kPrimes[] = {3, 5, 7, 11, 13, 17, 19, 23, 7919, 104729, 1299709, 15485863};
    const uint64_t prime = kPrimes[random.below(12)];
    return count_ % prime == 0 ? 1 : prime % count_;
  }

  uint64_t count_ = 1, at_ = 0, step_ = 1;
};

}  // namespace simt
