#pragma once
#include <cstdint>

#include "block_channel.h"
#include "record_store.h"

namespace dlrm {

/// Where records lie. The file consists of segments: blocks of records, then the row numbers of
/// these records. A record has a place: its number in the file, counted over all segments.
///
/// Records are packed in groups of one or a few blocks, so that at most an eighth of the space is
/// lost if a record is shorter than a few blocks. A record crosses blocks only if its group has
/// several.
struct RecordLayout {
  RecordLayout(int64_t rows, int64_t record_bytes, const SsdRecordsOptions& options);

  int64_t record_bytes;
  int64_t group_blocks, group_records;
  int64_t data_blocks;     ///< of a segment
  int64_t segment_blocks;  ///< with the row numbers
  int64_t segment_records;
  int64_t most_segments;

  int64_t segment_bytes() const { return segment_blocks * kBlockBytes; }
  int64_t segment_of(int64_t place) const { return place / segment_records; }
  /// The byte of a segment at which record `index` of the segment begins.
  int64_t offset_in_segment(int64_t index) const {
    return index / group_records * group_blocks * kBlockBytes +
           index % group_records * record_bytes;
  }
  /// The byte of the file at which the record of a place begins.
  int64_t offset(int64_t place) const {
    return place / segment_records * segment_bytes() + offset_in_segment(place % segment_records);
  }
  /// Segments that `live` records may take. Then a segment of all but the open one and the spare
  /// ones has at most two thirds of its records live.
  int64_t segments_for(int64_t live) const;
};

}  // namespace dlrm
