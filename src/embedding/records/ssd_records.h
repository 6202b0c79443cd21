#pragma once
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "block_file.h"
#include "open_segment.h"
#include "record_layout.h"
#include "record_reader.h"
#include "record_store.h"
#include "segment_table.h"

namespace dlrm {

/// Records in a log on a disk. A record that is written goes to the end of the log, which is one
/// segment in memory. A full segment is written to the file whole. Its records die as their rows
/// are written again. If the file is as long as its live records allow, the live records of the
/// emptiest segment are added to the log again, and that segment becomes free.
///
/// arrange() sorts the records of the segments whose rows are in no order, as many at a time as fit
/// in memory, and adds them to the log again. Afterwards consecutive rows lie in a few parts of the
/// file for each sort.
///
/// A free segment is used again only after the reads have ended that may have looked it up. The
/// oldest one decides.
class SsdRecords final : public RecordStore {
 public:
  SsdRecords(int64_t rows, int64_t record_bytes, const SsdRecordsOptions& options,
             std::unique_ptr<BlockFile> file);

  std::unique_ptr<RecordRead> start_read(View<const int64_t> rows, std::byte* out,
                                         uint8_t* written) override;
  void write(View<const int64_t> rows, const std::byte* records) override;
  void arrange() override;
  void clear() override;
  TierTraffic traffic() const override;
  std::string description() const override { return file_->description(); }

 private:
  using Clock = std::chrono::steady_clock;
  class Read;

  /// Calls a function. Keeps its error for later calls.
  template <class Function>
  void keep_error(Function function);
  void throw_kept_error();

  /// Copies the records that are in memory, and returns the others. From now on the segments of
  /// read number `read` are not used again.
  std::vector<Wanted> look_up(View<const int64_t> rows, std::byte* out, uint8_t* written,
                              uint64_t& read);
  void end_read(uint64_t read);
  /// The oldest read under way, 0 if there is none. state_ is locked.
  uint64_t oldest_read() const { return under_way_.empty() ? 0 : *under_way_.begin(); }

  /// Adds records to the log.
  void add(View<const int64_t> rows, const std::byte* records);
  /// Adds a record to the open segment, which is not full. state_ is locked.
  void append(int64_t row, const std::byte* record);
  void write_open_segment();
  /// Opens a free segment, and leaves one free.
  void open_next_segment();
  int64_t take_free_segment();
  void grow();
  /// Frees the emptiest segment.
  void compact();
  /// Appends the live records of a sealed segment, tagged with their rows.
  void list_live(int64_t segment, std::vector<Wanted>& live);
  /// Adds the live records of these segments to the log again, in the order of rows.
  void sort(const std::vector<int64_t>& segments);
  /// Runs `work`, which writes, and counts what it moves.
  template <class Work>
  void count_write(int64_t rows, const Work& work);

  const std::string label_;
  const RecordLayout layout_;
  const size_t segments_sorted_;  // at a time
  const std::unique_ptr<BlockFile> file_;
  ZeroedArray<uint32_t> places_;  // of each row: 1 + its record's place, or 0
  PartSums sums_;
  SegmentTable segments_;
  OpenSegment open_;

  std::mutex writing_;
  mutable std::mutex state_;  // of places_, segments_, open_, and all up to error_
  std::condition_variable read_ended_;
  uint64_t reads_ = 0;            // started so far
  std::set<uint64_t> under_way_;  // of these
  TierTraffic traffic_;
  std::string error_;

  RecordReader reader_;     // of read() and arrange()
  RecordReader compactor_;  // of write()
};

}  // namespace dlrm
