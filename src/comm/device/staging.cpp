#include "staging.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dlrm::comm {

Staging::Staging(Device& device)
    : device_(device),
      out_(device.make_stream()),
      in_(device.make_stream()),
      events_(std::make_shared<EventPool>(device)) {}

Staging::~Staging() {
  try {
    out_->synchronize();
    in_->synchronize();
  } catch (...) {
    // A failed device makes no further copies.
  }
}

std::unique_ptr<Staging::Slot> Staging::acquire(int64_t send_bytes, int64_t receive_bytes) {
  const auto send = static_cast<size_t>(send_bytes), receive = static_cast<size_t>(receive_bytes);
  if (free_.empty()) free_.push_back(std::make_unique<Slot>(device_));
  // The smallest slot that is large enough. Otherwise the largest one, which grows.
  const auto worse = [&](const std::unique_ptr<Slot>& a, const std::unique_ptr<Slot>& b) {
    const bool a_fits = a->send.size() >= send && a->receive.size() >= receive;
    const bool b_fits = b->send.size() >= send && b->receive.size() >= receive;
    if (a_fits != b_fits) return b_fits;
    return a_fits ? a->capacity() > b->capacity() : a->capacity() < b->capacity();
  };
  const auto best = std::max_element(free_.begin(), free_.end(), worse);
  std::unique_ptr<Slot> slot = std::move(*best);
  free_.erase(best);
  const bool grows = slot->send.size() < send || slot->receive.size() < receive;
  if (grows && slot->reused) slot->delivered->synchronize();  // its memory is freed
  slot->send.reserve(send);
  slot->receive.reserve(receive);
  return slot;
}

void Staging::release(std::unique_ptr<Slot> slot) { free_.push_back(std::move(slot)); }

std::unique_ptr<StagedLayout> Staging::acquire_layout() {
  if (free_layouts_.empty()) return std::make_unique<StagedLayout>();
  std::unique_ptr<StagedLayout> layout = std::move(free_layouts_.back());
  free_layouts_.pop_back();
  return layout;
}

void Staging::release(std::unique_ptr<StagedLayout> layout) {
  free_layouts_.push_back(std::move(layout));
}

void StagedBlocks::lay_out(View<const int64_t> block_bytes, View<const int64_t> block_offsets,
                           int own) {
  runs.clear();
  total = 0;
  bytes.assign(block_bytes.begin(), block_bytes.end());
  offsets.assign(bytes.size(), 0);
  bytes[static_cast<size_t>(own)] = 0;
  order_.resize(bytes.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::erase_if(order_, [&](size_t q) { return bytes[q] == 0; });
  std::sort(order_.begin(), order_.end(),
            [&](size_t a, size_t b) { return block_offsets[a] < block_offsets[b]; });
  for (const size_t q : order_) {
    const int64_t begin = block_offsets[q];
    if (runs.empty() || begin > runs.back().offset + runs.back().bytes) {
      runs.push_back({begin, 0, total});
    }
    Run& run = runs.back();
    offsets[q] = run.staged_offset + begin - run.offset;
    run.bytes = std::max(run.bytes, begin + bytes[q] - run.offset);
    total = run.staged_offset + run.bytes;
  }
}

}  // namespace dlrm::comm
