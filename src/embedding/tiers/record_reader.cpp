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

RecordReader::Read::Read(RecordReader& reader, std::vector<Wanted> wanted, Take take)
    : reader_(reader), wanted_(std::move(wanted)), take_(std::move(take)) {
  std::sort(wanted_.begin(), wanted_.end(),
            [](const Wanted& a, const Wanted& b) { return a.place < b.place; });
  const RecordLayout& layout = reader_.layout_;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const int64_t offset = layout.offset(wanted_[i].place);
    const int64_t first = offset / kBlockBytes;
    const int64_t end = (offset + layout.record_bytes - 1) / kBlockBytes + 1;
    if (!ranges_.empty()) {
      BlockRange& last = ranges_.back();
      if (first <= last.first + last.count + kMostGap &&
          end - last.first <= reader_.channel_.most_blocks()) {
        last.count = std::max(last.count, end - last.first);
        continue;
      }
    }
    ranges_.push_back({first, end - first});
    begins_.push_back(i);
  }
  begins_.push_back(wanted_.size());
  read_ = std::make_unique<BlockChannel::Read>(
      reader_.channel_, ranges_,
      [this](size_t range, const std::byte* data) { arrived(range, data); });
}

void RecordReader::Read::arrived(size_t number, const std::byte* data) const {
  const RecordLayout& layout = reader_.layout_;
  const BlockRange& range = ranges_[number];
  int64_t checked = range.first;  // all wanted blocks before
  for (size_t i = begins_[number]; i < begins_[number + 1]; ++i) {
    const int64_t offset = layout.offset(wanted_[i].place);
    const int64_t end = (offset + layout.record_bytes - 1) / kBlockBytes + 1;
    for (int64_t b = std::max(checked, offset / kBlockBytes); b < end; ++b) {
      reader_.sums_.check(b, data + (b - range.first) * kBlockBytes);
    }
    checked = std::max(checked, end);
    take_(wanted_[i].tag, data + offset - range.first * kBlockBytes);
  }
}

void RecordReader::read_rows(int64_t segment, std::vector<uint32_t>& rows) {
  rows.resize(static_cast<size_t>(layout_.segment_records));
  const int64_t first = segment * layout_.segment_blocks + layout_.data_blocks;
  const int64_t end = (segment + 1) * layout_.segment_blocks;
  std::vector<BlockRange> ranges;
  for (int64_t b = first; b < end; b += channel_.most_blocks()) {
    ranges.push_back({b, std::min(channel_.most_blocks(), end - b)});
  }
  BlockChannel::Read read(channel_, ranges, [&](size_t i, const std::byte* data) {
    const BlockRange& range = ranges[i];
    for (int64_t b = 0; b < range.count; ++b) sums_.check(range.first + b, data + b * kBlockBytes);
    const auto from = static_cast<size_t>((range.first - first) * kBlockBytes);
    const size_t size = std::min(rows.size() * sizeof(uint32_t) - from,
                                 static_cast<size_t>(range.count * kBlockBytes));
    std::memcpy(reinterpret_cast<std::byte*>(rows.data()) + from, data, size);
  });
  read.finish();
}

}  // namespace dlrm
