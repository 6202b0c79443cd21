#include "record_reader.h"

#include <algorithm>
#include <cstring>

#include "dlrm/core/crc32c.h"
#include "dlrm/core/error.h"

namespace dlrm {

namespace {

// Unwanted blocks between wanted ones of a transfer. On an SSD they take less time than a transfer.
constexpr int64_t kMostGap = 4;

uint32_t sum_of(const std::byte* part) {
  Crc32c crc;
  crc.add(part, PartSums::kBytes);
  return crc.value();
}

/// The parts of a file in which `bytes` from `offset` on lie.
Range parts_of(int64_t offset, int64_t bytes) {
  return {offset / PartSums::kBytes, (offset + bytes - 1) / PartSums::kBytes + 1};
}

}  // namespace

int64_t most_blocks_of(const RecordLayout& layout) {
  constexpr int64_t kMost = 8;
  return std::max(kMost, layout.record_bytes / kBlockBytes + 2);
}

void PartSums::set(int64_t first_block, View<const std::byte> blocks) {
  int64_t part = first_block * (kBlockBytes / kBytes);
  for (size_t at = 0; at < blocks.size(); at += kBytes) sums_[part++] = sum_of(blocks.data() + at);
}

void PartSums::check(int64_t part, const std::byte* data) const {
  const uint32_t sum = sum_of(data);
  if (sum == sums_[part]) return;
  throw run_error(
      "{}: block {} is damaged: its checksum is {:08x} instead of {:08x}; the disk may be failing: "
      "resume with memory.cached.directory on another one",
      label_, part / (kBlockBytes / kBytes), sum, sums_[part]);
}

RecordReader::RecordReader(BlockFile& file, const std::string& label, int depth,
                           const RecordLayout& layout, const PartSums& sums)
    : layout_(layout), sums_(sums), channel_(file, label, depth, most_blocks_of(layout)) {}

RecordReader::Read::Read(RecordReader& reader, std::vector<Wanted> wanted, Take take)
    : reader_(reader), wanted_(std::move(wanted)), take_(std::move(take)) {
  std::sort(wanted_.begin(), wanted_.end(),
            [](const Wanted& a, const Wanted& b) { return a.place < b.place; });
  const RecordLayout& layout = reader_.layout_;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const int64_t offset = layout.offset(wanted_[i].place);
    reader_.sums_.prefetch(offset / PartSums::kBytes);
    const int64_t first = offset / kBlockBytes;
    const int64_t end = (offset + layout.record_bytes - 1) / kBlockBytes + 1;
    if (!ranges_.empty()) {
      BlockRange& last = ranges_.back();
      if (first <= last.first + last.count + kMostGap &&
          end - last.first <= reader_.channel_.most_blocks()) {
        last.count = end - last.first;
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
  const int64_t begin = range.first * kBlockBytes;
  int64_t checked = 0;  // all wanted parts before
  for (size_t i = begins_[number]; i < begins_[number + 1]; ++i) {
    const int64_t offset = layout.offset(wanted_[i].place);
    const Range parts = parts_of(offset, layout.record_bytes);
    for (int64_t p = std::max(checked, parts.begin); p < parts.end; ++p) {
      reader_.sums_.check(p, data + p * PartSums::kBytes - begin);
    }
    checked = parts.end;
    take_(wanted_[i].tag, data + offset - begin);
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
    const int64_t begin = range.first * kBlockBytes;
    const Range parts = parts_of(begin, range.count * kBlockBytes);
    for (int64_t p = parts.begin; p < parts.end; ++p) {
      sums_.check(p, data + p * PartSums::kBytes - begin);
    }
    const auto from = static_cast<size_t>((range.first - first) * kBlockBytes);
    const size_t size = std::min(rows.size() * sizeof(uint32_t) - from,
                                 static_cast<size_t>(range.count * kBlockBytes));
    std::memcpy(reinterpret_cast<std::byte*>(rows.data()) + from, data, size);
  });
  read.finish();
}

}  // namespace dlrm
