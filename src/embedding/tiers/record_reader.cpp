#include "record_reader.h"

#include <algorithm>
#include <cstring>

#include "dlrm/core/crc32c.h"
#include "dlrm/core/error.h"

namespace dlrm {

namespace {

// Unwanted blocks between wanted ones of a transfer. On an SSD they take less time than a transfer.
constexpr int64_t kMostGap = 4;

uint32_t sum_of(const std::byte* block) {
  Crc32c crc;
  crc.add(block, kBlockBytes);
  return crc.value();
}

}  // namespace

int64_t most_blocks_of(const RecordLayout& layout) {
  constexpr int64_t kMost = 8;
  return std::max(kMost, layout.record_bytes / kBlockBytes + 2);
}

void BlockSums::set(int64_t first, View<const std::byte> blocks) {
  for (size_t at = 0; at < blocks.size(); at += kBlockBytes) {
    sums_[first++] = sum_of(blocks.data() + at);
  }
}

void BlockSums::check(int64_t block, const std::byte* data) const {
  const uint32_t sum = sum_of(data);
  if (sum == sums_[block]) return;
  throw run_error(
      "{}: block {} is damaged: its checksum is {:08x} instead of {:08x}; the disk may be failing: "
      "resume with memory.cached.directory on another one",
      label_, block, sum, sums_[block]);
}

RecordReader::RecordReader(BlockFile& file, const std::string& label, int depth,
                           const RecordLayout& layout, const BlockSums& sums)
    : layout_(layout), sums_(sums), channel_(file, label, depth, most_blocks_of(layout)) {}

void RecordReader::start_read(std::vector<Wanted>& wanted) {
  std::sort(wanted.begin(), wanted.end(),
            [](const Wanted& a, const Wanted& b) { return a.place < b.place; });
  add_ranges(wanted);
  channel_.start_read(ranges_);
}

void RecordReader::finish_read(const std::vector<Wanted>& wanted, const Take& take) {
  channel_.finish_read([&](size_t i, const std::byte* data) {
    take_range(View<const Wanted>(wanted).subspan(begins_[i], begins_[i + 1] - begins_[i]),
               ranges_[i], data, take);
  });
}

void RecordReader::add_ranges(View<const Wanted> wanted) {
  ranges_.clear();
  begins_.clear();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const int64_t offset = layout_.offset(wanted[i].place);
    const int64_t first = offset / kBlockBytes;
    const int64_t end = (offset + layout_.record_bytes - 1) / kBlockBytes + 1;
    if (!ranges_.empty()) {
      BlockRange& last = ranges_.back();
      if (first <= last.first + last.count + kMostGap &&
          end - last.first <= channel_.most_blocks()) {
        last.count = std::max(last.count, end - last.first);
        continue;
      }
    }
    ranges_.push_back({first, end - first});
    begins_.push_back(i);
  }
  begins_.push_back(wanted.size());
}

void RecordReader::take_range(View<const Wanted> wanted, const BlockRange& range,
                              const std::byte* data, const Take& take) const {
  int64_t checked = range.first;  // all wanted blocks before
  for (const Wanted& record : wanted) {
    const int64_t offset = layout_.offset(record.place);
    const int64_t end = (offset + layout_.record_bytes - 1) / kBlockBytes + 1;
    for (int64_t b = std::max(checked, offset / kBlockBytes); b < end; ++b) {
      sums_.check(b, data + (b - range.first) * kBlockBytes);
    }
    checked = std::max(checked, end);
    take(record.tag, data + offset - range.first * kBlockBytes);
  }
}

void RecordReader::read_rows(int64_t segment, std::vector<uint32_t>& rows) {
  rows.resize(static_cast<size_t>(layout_.segment_records));
  const int64_t first = segment * layout_.segment_blocks + layout_.data_blocks;
  const int64_t end = (segment + 1) * layout_.segment_blocks;
  ranges_.clear();
  for (int64_t b = first; b < end; b += channel_.most_blocks()) {
    ranges_.push_back({b, std::min(channel_.most_blocks(), end - b)});
  }
  channel_.read(ranges_, [&](size_t i, const std::byte* data) {
    const BlockRange& range = ranges_[i];
    for (int64_t b = 0; b < range.count; ++b) sums_.check(range.first + b, data + b * kBlockBytes);
    const auto from = static_cast<size_t>((range.first - first) * kBlockBytes);
    const size_t size = std::min(rows.size() * sizeof(uint32_t) - from,
                                 static_cast<size_t>(range.count * kBlockBytes));
    std::memcpy(reinterpret_cast<std::byte*>(rows.data()) + from, data, size);
  });
}

}  // namespace dlrm
