#include "record_stream.h"

#include <algorithm>
#include <cstring>

#include "dlrm/plan/cache_size.h"

#include "embedding/records/record_parts.h"

namespace dlrm {
namespace {

constexpr int64_t kRowBytes = sizeof(int64_t);

/// The slot numbers of a block's records.
int64_t header_bytes(int64_t records) {
  return RecordPadding::aligned(records * static_cast<int64_t>(sizeof(int32_t)));
}

/// The fields of slots, and their places in a padded record.
std::vector<SlotArray> slot_arrays(const SlotRecords& records) {
  const RecordPadding padding(records);
  std::vector<SlotArray> arrays;
  for (size_t f = 0; f < records.fields().size(); ++f) {
    const SlotRecords::Field& field = records.fields()[f];
    arrays.push_back({field.slots, field.stride, padding.parts()[f].at});
  }
  return arrays;
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

RecordStream::Layout RecordStream::layout_of(const SlotRecords& records) {
  Layout layout{RecordPadding(records), slot_arrays(records), 0};
  layout.stride = layout.padding.bytes();
  if (records.row_of()) {
    layout.arrays.push_back({records.row_of(), kRowBytes, layout.stride});
    layout.stride += RecordPadding::aligned(kRowBytes);
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
  return {there + header_bytes(count), static_cast<int32_t*>(block.device.data()), count, stride,
          nullptr};
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
        layout.padding.unpack(from, out + static_cast<int64_t>(first + i) * records.bytes());
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
        layout.padding.pack(in + static_cast<int64_t>(first + i) * records.bytes(), to);
        if (!records.row_of()) continue;
        std::memcpy(to + layout.arrays.back().at, &rows[first + i], kRowBytes);
      }
    });
    device_.copy(block.device.data(), block.host.data(),
                 header + static_cast<size_t>(part.count * part.stride), *stream_);
    copies_->to_slots(layout.arrays, part);
  });
}

template <class Work>
void RecordStream::each_list(View<const int64_t> slots, View<const int64_t> rows,
                             const Work& work) {
  // A slot and a row take less of a block than the shortest record and its slot.
  each_part(RecordPadding::kAlign, slots.size(), [&](Block& block, size_t first, size_t count) {
    SlotBlock lists = put_slots(block, slots.subspan(first, count), 0);
    const auto header = static_cast<size_t>(header_bytes(lists.count));
    std::memcpy(static_cast<std::byte*>(block.host.data()) + header, &rows[first],
                count * kRowBytes);
    device_.copy(block.device.data(), block.host.data(), header + count * kRowBytes, *stream_);
    lists.numbers = static_cast<const int64_t*>(lists.records);
    work(lists);
  });
}

void RecordStream::to_slots(const SlotRecords& records, const KernelRecords& from,
                            View<const int64_t> slots, View<const int64_t> rows) {
  const std::vector<SlotArray> arrays = slot_arrays(records);
  each_list(slots, rows, [&](const SlotBlock& lists) {
    copies_->to_slots(arrays,
                      {from.data(), lists.slots, lists.count, from.stride(), lists.numbers});
    if (!records.row_of()) return;
    const SlotArray numbers{records.row_of(), kRowBytes, 0};
    copies_->to_slots({&numbers, 1}, {lists.records, lists.slots, lists.count, kRowBytes, nullptr});
  });
}

void RecordStream::from_slots(const SlotRecords& records, const KernelRecords& to,
                              View<const int64_t> slots, View<const int64_t> rows) {
  const std::vector<SlotArray> arrays = slot_arrays(records);
  each_list(slots, rows, [&](const SlotBlock& lists) {
    copies_->from_slots(arrays, {to.data(), lists.slots, lists.count, to.stride(), lists.numbers});
  });
}

void RecordStream::finish() { stream_->synchronize(); }

}  // namespace dlrm
