#pragma once
#include <cstring>

#include "record_layout.h"
#include "zeroed_array.h"

namespace dlrm {

/// The segment that records are being added to, in memory. Full and without any place at first.
class OpenSegment {
 public:
  explicit OpenSegment(const RecordLayout& layout)
      : layout_(layout), count_(layout.segment_records), bytes_(layout.segment_bytes()) {}

  bool exists() const { return segment_ >= 0; }
  bool full() const { return count_ == layout_.segment_records; }
  int64_t segment() const { return segment_; }
  /// The rows increase in the order of their records, but for a few places.
  bool ordered() const { return descents_ <= kFewDescents; }
  bool holds(int64_t place) const { return layout_.segment_of(place) == segment_; }
  std::byte* record(int64_t place) const {
    return bytes_.data() + layout_.offset_in_segment(place % layout_.segment_records);
  }

  /// Begins another segment, without records.
  void begin(int64_t segment) {
    segment_ = segment;
    count_ = 0;
    descents_ = 0;
    last_row_ = -1;
  }
  /// Adds a record and returns its place.
  int64_t add(int64_t row, const std::byte* bytes) {
    const int64_t place = segment_ * layout_.segment_records + count_;
    std::memcpy(record(place), bytes, static_cast<size_t>(layout_.record_bytes));
    descents_ += row < last_row_;
    last_row_ = row;
    const auto number = static_cast<uint32_t>(row);
    std::memcpy(bytes_.data() + layout_.data_blocks * kBlockBytes +
                    count_ * static_cast<int64_t>(sizeof number),
                &number, sizeof number);
    ++count_;
    return place;
  }
  /// As it is written to the file.
  View<std::byte> bytes() const { return {bytes_.data(), static_cast<size_t>(bytes_.size())}; }
  /// Removes the segment. There is none until begin().
  void clear() {
    segment_ = -1;
    count_ = layout_.segment_records;
  }

 private:
  static constexpr int64_t kFewDescents = 4;

  const RecordLayout& layout_;
  int64_t segment_ = -1;
  int64_t count_;
  int64_t descents_ = 0;   // rows that are less than the one before
  int64_t last_row_ = -1;  // that was added
  ZeroedArray<std::byte> bytes_;
};

}  // namespace dlrm
