#include "record_stream.h"

#include <algorithm>
#include <cstring>

#include "dlrm/plan/cache_size.h"

#include "record_parts.h"

namespace dlrm {
namespace {

constexpr int64_t kAlign = 16;

int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

/// The slot numbers of a block's records.
int64_t header_bytes(int64_t records) {
  return aligned(records * static_cast<int64_t>(sizeof(int32_t)));
}

}  // namespace

RecordStream::RecordStream(Device& device, Stream& main, int threads)
    : device_(device),
      main_(main),
      threads_(threads),
      stream_(device.make_stream()),
      copies_(make_slot_copies(device, *stream_)) {
  for (Block& block : blocks_) block.done = device.make_event();
}

RecordStream::~RecordStream() { settle(*stream_); }

/// Arrays lie one after another, each with the padding of its slots.
RecordStream::Layout RecordStream::layout_of(const SlotRecords& records) {
  Layout layout;
  for (const SlotRecords::Field& field : records.fields()) {
    layout.arrays.push_back({field.slots, field.stride, layout.stride});
    layout.stride += aligned(field.stride);
  }
  if (records.row_of()) {
    constexpr int64_t kBytes = sizeof(int64_t);
    layout.arrays.push_back({records.row_of(), kBytes, layout.stride});
    layout.stride += aligned(kBytes);
  }
  return layout;
}

void RecordStream::reserve(const SlotRecords& records, int64_t slots) {
  const int64_t bytes = moved_block_bytes(slots, layout_of(records).stride);
  if (bytes <= bytes_) return;
  bytes_ = bytes;
  for (Block& block : blocks_) {
    const auto size = static_cast<size_t>(bytes);
    block.host = Buffer();
    block.device = Buffer();
    block.host = Buffer(device_, size, "records on their way", MemoryKind::kHost);
    block.device = Buffer(device_, size, "records on their way");
  }
}

std::shared_ptr<Event> RecordStream::released() {
  // An event that nobody waits for any more is used again.
  auto free = std::find_if(released_.begin(), released_.end(),
                           [](const auto& event) { return event.use_count() == 1; });
  if (free == released_.end()) {
    released_.push_back(device_.make_event());
    free = released_.end() - 1;
  }
  main_.record(**free);
  return *free;
}

void RecordStream::begin(Event* event) {
  current_ = device_.make_event();  // makes the device that of the calling thread
  if (event) stream_->wait(*event);
}

template <class Work>
void RecordStream::each_part(int64_t stride, size_t count, const Work& work) {
  const auto most = static_cast<size_t>(moved_block_records(bytes_, stride));
  for (size_t first = 0; first < count; first += most) {
    Block& block = blocks_[next_];
    next_ = (next_ + 1) % std::size(blocks_);
    block.done->synchronize();
    const size_t here = std::min(most, count - first);
    work(block, first, here);
    stream_->record(*block.done);
  }
}

SlotBlock RecordStream::put_slots(Block& block, View<const int64_t> slots, int64_t stride) {
  auto* const numbers = static_cast<int32_t*>(block.host.data());
  std::transform(slots.begin(), slots.end(), numbers,
                 [](int64_t slot) { return static_cast<int32_t>(slot); });
  const auto count = static_cast<int64_t>(slots.size());
  auto* const there = static_cast<std::byte*>(block.device.data());
  return {there + header_bytes(count), static_cast<int32_t*>(block.device.data()), count, stride};
}

void RecordStream::unpack(const SlotRecords& records, const Layout& layout, const std::byte* from,
                          std::byte* record) {
  for (size_t f = 0; f < records.fields().size(); ++f) {
    const SlotRecords::Field& field = records.fields()[f];
    std::memcpy(record + field.at, from + layout.arrays[f].at, static_cast<size_t>(field.bytes()));
  }
}

void RecordStream::pack(const SlotRecords& records, const Layout& layout, const std::byte* record,
                        std::byte* to) {
  for (size_t f = 0; f < records.fields().size(); ++f) {
    const SlotRecords::Field& field = records.fields()[f];
    const auto bytes = static_cast<size_t>(field.bytes());
    std::byte* const array = to + layout.arrays[f].at;
    std::memcpy(array, record + field.at, bytes);
    std::memset(array + bytes, 0, static_cast<size_t>(field.stride) - bytes);
  }
}

void RecordStream::gather(const SlotRecords& records, View<const int64_t> slots, std::byte* out) {
  const Layout layout = layout_of(records);
  each_part(layout.stride, slots.size(), [&](Block& block, size_t first, size_t count) {
    const SlotBlock part = put_slots(block, slots.subspan(first, count), layout.stride);
    const auto header = static_cast<size_t>(header_bytes(part.count));
    auto* const here = static_cast<std::byte*>(block.host.data()) + header;
    device_.copy(block.device.data(), block.host.data(), header, *stream_);
    copies_->from_slots(layout.arrays, part);
    device_.copy(here, part.records, static_cast<size_t>(part.count * part.stride), *stream_);
    stream_->synchronize();
    for_record_parts(count, threads_, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        const std::byte* const from = here + static_cast<int64_t>(i) * layout.stride;
        unpack(records, layout, from, out + static_cast<int64_t>(first + i) * records.bytes());
      }
    });
  });
}

void RecordStream::scatter(const SlotRecords& records, const std::byte* in,
                           View<const int64_t> slots, View<const int64_t> rows) {
  const Layout layout = layout_of(records);
  each_part(layout.stride, slots.size(), [&](Block& block, size_t first, size_t count) {
    const SlotBlock part = put_slots(block, slots.subspan(first, count), layout.stride);
    const auto header = static_cast<size_t>(header_bytes(part.count));
    auto* const here = static_cast<std::byte*>(block.host.data()) + header;
    for_record_parts(count, threads_, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        std::byte* const to = here + static_cast<int64_t>(i) * layout.stride;
        pack(records, layout, in + static_cast<int64_t>(first + i) * records.bytes(), to);
        if (!records.row_of()) continue;
        std::memcpy(to + layout.arrays.back().at, &rows[first + i], sizeof(int64_t));
      }
    });
    device_.copy(block.device.data(), block.host.data(),
                 header + static_cast<size_t>(part.count * part.stride), *stream_);
    copies_->to_slots(layout.arrays, part);
  });
}

void RecordStream::finish() { stream_->synchronize(); }

}  // namespace dlrm
