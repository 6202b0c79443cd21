#include "record_layout.h"

#include <algorithm>

#include "dlrm/core/error.h"

#include "segment_table.h"

namespace dlrm {

namespace {

constexpr int64_t kLostShare = 8;  // an eighth
constexpr int64_t kRowBytes = sizeof(uint32_t);
constexpr int64_t kSegmentsOfStore = 16;
constexpr int64_t kLeastSegmentBytes = int64_t{64} << 10;
constexpr int64_t kPlaces = int64_t{1} << 32;

int64_t blocks_of(int64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes; }

}  // namespace

RecordLayout::RecordLayout(int64_t rows, int64_t record_bytes, const SsdRecordsOptions& options)
    : record_bytes(record_bytes) {
  DLRM_CHECK(rows >= 0 && record_bytes > 0 && options.queue_depth > 0);
  // The fewest blocks that lose little.
  for (group_blocks = blocks_of(record_bytes);; ++group_blocks) {
    group_records = group_blocks * kBlockBytes / record_bytes;
    const int64_t lost = group_blocks * kBlockBytes - group_records * record_bytes;
    if (lost * kLostShare <= group_blocks * kBlockBytes) break;
  }
  const int64_t small = std::max(kLeastSegmentBytes, rows * record_bytes / kSegmentsOfStore);
  const int64_t group_bytes = group_blocks * kBlockBytes + group_records * kRowBytes;
  const int64_t groups = std::max<int64_t>(1, std::min(options.segment_bytes, small) / group_bytes);
  data_blocks = groups * group_blocks;
  segment_records = groups * group_records;
  segment_blocks = data_blocks + blocks_of(segment_records * kRowBytes);
  most_segments = segments_for(rows) + SegmentTable::kSlack;
  if (most_segments * segment_records >= kPlaces) {
    throw usage_error(
        "{}: {} rows; a slice of a table on an SSD can have at most about {}; cut the table by "
        "rows "
        "over more ranks",
        options.name, rows, kPlaces * 2 / 3 - (SegmentTable::kSlack + 3) * segment_records);
  }
}

int64_t RecordLayout::segments_for(int64_t live) const {
  const int64_t wanted = live + live / 2;
  constexpr int64_t kOpenAndSpare = 3;
  return (wanted + segment_records - 1) / segment_records + kOpenAndSpare;
}

}  // namespace dlrm
