#include "epoch_order.h"

#include <algorithm>
#include <numeric>

#include "dlrm/core/random.h"

namespace dlrm {
namespace {

// Workers may be in two neighbouring windows, and the next one may be in preparation.
constexpr size_t kKeptWindows = 4;
constexpr size_t kKeptOrders = 2;

/// Random numbers of one shuffle, in sequence. `index` is the number of the shuffle in its epoch.
class Draws {
 public:
  Draws(uint64_t key, int64_t epoch, int64_t index)
      : key_(key), epoch_(static_cast<uint32_t>(epoch)), index_(static_cast<uint32_t>(index)) {}

  /// [0, bound), bound < 2^32.
  uint32_t below(uint64_t bound) {
    if (next_ % 4 == 0) words_ = philox(key_, {next_ / 4, epoch_, index_, 3});
    return static_cast<uint32_t>((words_[next_++ % 4] * bound) >> 32);
  }

 private:
  uint64_t key_;
  uint32_t epoch_, index_;
  uint32_t next_ = 0;
  std::array<uint32_t, 4> words_{};
};

template <class T>
void shuffle(std::vector<T>& values, Draws draws) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[draws.below(i)]);
}

}  // namespace

struct EpochOrder::BlockOrder {
  int64_t epoch = 0;
  std::vector<int64_t> blocks;        // in visiting order, window after window
  std::vector<int64_t> window_begin;  // [windows + 1] first position of each window
  std::vector<int64_t> window_block;  // [windows + 1] first of its blocks
};

struct EpochOrder::Window {
  int64_t epoch = 0;
  int64_t index = 0;
  std::once_flag made;
  int64_t begin = 0;              // its first position
  std::vector<int64_t> starts;    // first sample of each of its blocks
  std::vector<uint32_t> places;   // of each block among the samples of all
  std::vector<uint32_t> shuffle;  // [size] places of samples
};

Range EpochOrder::block_range(int64_t block) const {
  const auto b = static_cast<size_t>(block);
  if (!starts_.empty()) return {starts_[b], starts_[b + 1]};
  return {block * kBlock, std::min(samples_, (block + 1) * kBlock)};
}

std::shared_ptr<const EpochOrder::BlockOrder> EpochOrder::block_order(int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  for (const auto& order : orders_) {
    if (order->epoch == epoch) return order;
  }
  auto order = std::make_shared<BlockOrder>();
  order->epoch = epoch;
  order->blocks.resize(static_cast<size_t>(blocks()));
  std::iota(order->blocks.begin(), order->blocks.end(), int64_t{0});
  if (shuffle_) shuffle(order->blocks, Draws(stream_key(seed_, "data/blocks"), epoch, 0));
  cut_windows(*order);
  orders_.push_front(order);
  if (orders_.size() > kKeptOrders) orders_.pop_back();
  return order;
}

void EpochOrder::cut_windows(BlockOrder& order) const {
  order.window_begin.push_back(0);
  order.window_block.push_back(0);
  for (size_t first = 0; first < order.blocks.size();) {
    size_t last = first;
    int64_t size = 0;
    while (last < order.blocks.size() && last - first < kWindowBlocks &&
           size < kWindowBlocks * kBlock) {
      size += block_range(order.blocks[last++]).size();
    }
    // Moves the one short block to the end of its window, so that block and sample follow from a
    // position.
    std::stable_partition(order.blocks.begin() + static_cast<int64_t>(first),
                          order.blocks.begin() + static_cast<int64_t>(last),
                          [&](int64_t b) { return block_range(b).size() == kBlock; });
    order.window_begin.push_back(order.window_begin.back() + size);
    order.window_block.push_back(static_cast<int64_t>(last));
    first = last;
  }
}

std::shared_ptr<const EpochOrder::Window> EpochOrder::window(int64_t epoch, int64_t index) const {
  const std::shared_ptr<const BlockOrder> order = block_order(epoch);
  std::shared_ptr<Window> window;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& kept : windows_) {
      if (kept->epoch == epoch && kept->index == index) window = kept;
    }
    if (!window) {
      window = std::make_shared<Window>();
      window->epoch = epoch;
      window->index = index;
      windows_.push_front(window);
      if (windows_.size() > kKeptWindows) windows_.pop_back();
    }
  }
  // Made without holding the lock, so that other windows stay usable.
  std::call_once(window->made, [&] {
    const auto w = static_cast<size_t>(index);
    window->begin = order->window_begin[w];
    uint32_t place = 0;
    for (const Range& range : ranges_of(epoch, index)) {
      window->starts.push_back(range.begin);
      window->places.push_back(place);
      place += static_cast<uint32_t>(range.size());
    }
    window->shuffle.resize(static_cast<size_t>(order->window_begin[w + 1] - window->begin));
    std::iota(window->shuffle.begin(), window->shuffle.end(), 0u);
    if (shuffle_) shuffle(window->shuffle, Draws(stream_key(seed_, "data/window"), epoch, index));
  });
  return window;
}

void EpochOrder::samples_at(int64_t epoch, Range positions, View<int64_t> out) const {
  if (!shuffle_) {
    std::iota(out.begin(), out.begin() + positions.size(), positions.begin);
    return;
  }
  size_t filled = 0;
  int64_t position = positions.begin;
  while (position < positions.end) {
    const auto window = this->window(epoch, window_of(epoch, position));
    const auto from = static_cast<size_t>(position - window->begin);
    const size_t count =
        std::min(window->shuffle.size() - from, static_cast<size_t>(positions.end - position));
    for (size_t i = 0; i < count; ++i) {
      const uint32_t place = window->shuffle[from + i];
      size_t block = place / kBlock;
      if (!starts_.empty()) {
        const auto& places = window->places;
        block = static_cast<size_t>(std::upper_bound(places.begin(), places.end(), place) -
                                    places.begin() - 1);
      }
      out[filled + i] = window->starts[block] + place - window->places[block];
    }
    filled += count;
    position += static_cast<int64_t>(count);
  }
}

int64_t EpochOrder::window_of(int64_t epoch, int64_t position) const {
  const auto order = block_order(epoch);
  const auto& begins = order->window_begin;
  return std::upper_bound(begins.begin(), begins.end() - 1, position) - begins.begin() - 1;
}

int64_t EpochOrder::windows(int64_t epoch) const {
  return std::ssize(block_order(epoch)->window_begin) - 1;
}

Range EpochOrder::positions_of(int64_t epoch, int64_t window) const {
  const auto order = block_order(epoch);
  const auto w = static_cast<size_t>(window);
  return {order->window_begin[w], order->window_begin[w + 1]};
}

std::vector<Range> EpochOrder::ranges_of(int64_t epoch, int64_t window) const {
  const auto order = block_order(epoch);
  const auto w = static_cast<size_t>(window);
  std::vector<Range> ranges;
  for (int64_t b = order->window_block[w]; b < order->window_block[w + 1]; ++b) {
    ranges.push_back(block_range(order->blocks[static_cast<size_t>(b)]));
  }
  return ranges;
}

void EpochOrder::prepare(int64_t epoch, int64_t window) const {
  if (shuffle_) this->window(epoch, window);
}

}  // namespace dlrm
