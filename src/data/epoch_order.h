#pragma once
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "dlrm/core/partition.h"
#include "dlrm/core/view.h"

namespace dlrm {

/// The order in which an epoch visits samples: a permutation of [0, samples) that is a pure
/// function of (seed, epoch). Blocks of consecutive samples are permuted. Then the samples of each
/// window of blocks are shuffled: of kWindowBlocks blocks, or fewer, if they have as many samples
/// as that many blocks of kBlock. Any range can be read at any time, at the cost of shuffling the
/// windows that it touches. A few windows are kept. Thread-safe.
class EpochOrder {
 public:
  static constexpr int64_t kBlock = 16384;
  static constexpr int64_t kWindowBlocks = 64;

  EpochOrder(int64_t samples, bool shuffle, uint64_t seed)
      : samples_(samples), shuffle_(shuffle), seed_(seed) {}
  /// Of blocks of other sizes: block i has the samples starts[i] to starts[i + 1] - 1.
  EpochOrder(std::vector<int64_t> starts, bool shuffle, uint64_t seed)
      : samples_(starts.back()), shuffle_(shuffle), seed_(seed), starts_(std::move(starts)) {}

  /// out[i] = the sample at position positions.begin + i of the epoch's order.
  void samples_at(int64_t epoch, Range positions, View<int64_t> out) const;

  int64_t windows(int64_t epoch) const;
  /// The window that holds a position.
  int64_t window_of(int64_t epoch, int64_t position) const;
  /// The positions of a window.
  Range positions_of(int64_t epoch, int64_t window) const;
  /// The ranges of samples in a window.
  std::vector<Range> ranges_of(int64_t epoch, int64_t window) const;
  /// Shuffles a window ahead of its use.
  void prepare(int64_t epoch, int64_t window) const;

 private:
  struct BlockOrder;
  struct Window;

  int64_t blocks() const {
    return starts_.empty() ? (samples_ + kBlock - 1) / kBlock : std::ssize(starts_) - 1;
  }
  void cut_windows(BlockOrder& order) const;
  Range block_range(int64_t block) const;
  std::shared_ptr<const BlockOrder> block_order(int64_t epoch) const;
  std::shared_ptr<const Window> window(int64_t epoch, int64_t index) const;

  int64_t samples_;
  bool shuffle_;
  uint64_t seed_;
  std::vector<int64_t> starts_;  // empty: every block but the last has kBlock samples
  mutable std::mutex mutex_;
  mutable std::deque<std::shared_ptr<const BlockOrder>> orders_;  // most recent first
  mutable std::deque<std::shared_ptr<Window>> windows_;           // most recent first
};

}  // namespace dlrm
