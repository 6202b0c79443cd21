#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dlrm/core/view.h"

namespace dlrm {

class Device;
class SlotRecords;

/// What a tier moved since it was made.
struct TierTraffic {
  struct Direction {
    int64_t rows = 0;    ///< whose records the caller read or wrote
    int64_t bytes = 0;   ///< that the memory or the disk moved, compaction included
    double seconds = 0;  ///< within calls
  };
  Direction read, written;
  int64_t found_in_middle = 0;  ///< records that a read found in a middle tier, not in `read`
};

/// A read of records that was started. Ended unfinished, it waits for the transfers under way.
class RecordRead {
 public:
  virtual ~RecordRead() = default;
  /// Waits until the records are there.
  virtual void finish() = 0;
};

/// Records in host memory that the kernels of a device read and write. The host decides which, and
/// knows for each row whether it has a record. Record i is at data() + i * stride().
class KernelRecords {
 public:
  virtual ~KernelRecords() = default;
  virtual std::byte* data() const = 0;
  /// Bytes, with the padding of a RecordPadding.
  virtual int64_t stride() const = 0;
  using Draw = std::function<void(int64_t row, std::byte* record)>;
  /// Kernels will read the records of these rows. Rows that were never written get the record that
  /// draw() makes, which several threads call.
  virtual void reads(View<const int64_t> rows, const Draw& draw) = 0;
  /// Kernels will write the records of these rows.
  virtual void writes(View<const int64_t> rows) = 0;
};

/// The slower tier of a slice's rows: whole records (weights and optimizer state) by row number.
/// One thread may read while another writes, but not the same row. A failure is a run_error. After
/// it every call throws the same error.
class RecordStore {
 public:
  virtual ~RecordStore() = default;
  /// Reads the records of distinct rows to out [rows.size()][record_bytes]. written[i] is 0 if the
  /// row was never written. Its bytes in `out` are then unspecified.
  void read(View<const int64_t> rows, std::byte* out, uint8_t* written) {
    start_read(rows, out, written)->finish();
  }
  /// Starts a read, so that one thread has reads of many stores, and several of one, under way at
  /// the same time. `out` and `written` must stay until it is finished. The thread that started it
  /// finishes it, before another thread starts one.
  virtual std::unique_ptr<RecordRead> start_read(View<const int64_t> rows, std::byte* out,
                                                 uint8_t* written) = 0;
  /// Writes records [rows.size()][record_bytes] of distinct rows.
  virtual void write(View<const int64_t> rows, const std::byte* records) = 0;
  /// Puts the records in an order in which consecutive rows are read fast. Nothing may be read or
  /// written meanwhile.
  virtual void arrange() {}
  /// Forgets all records.
  virtual void clear() = 0;
  /// The records as kernels use them. Null if they cannot. The host must not read or write records
  /// that kernels use.
  virtual KernelRecords* for_kernels() { return nullptr; }
  virtual TierTraffic traffic() const = 0;
  /// How the records are kept, for people: "host memory", "io_uring with O_DIRECT".
  virtual std::string description() const = 0;
};

/// Records in host memory. A row that was never written takes a bit, no memory of its own.
/// At most `threads` threads copy the records of a call.
std::unique_ptr<RecordStore> make_memory_records(int64_t rows, int64_t record_bytes,
                                                 int threads = 1);

/// The same in pinned memory, for the kernels of a device whose slots have this layout. All rows
/// take memory.
std::unique_ptr<RecordStore> make_pinned_records(Device& device, const SlotRecords& layout,
                                                 int64_t rows, int threads);

/// The records that were written last in `slots` records of host memory, over a slower store. A
/// record that is pushed out by others goes there. One that is read stays where it is.
std::unique_ptr<RecordStore> make_middle_records(int64_t rows, int64_t record_bytes, int64_t slots,
                                                 std::unique_ptr<RecordStore> slower);

struct SsdRecordsOptions {
  std::string directory;                     ///< is created if it does not exist
  std::string name;                          ///< of the slice, in messages and in the file's name
  int64_t segment_bytes = int64_t{2} << 20;  ///< at most; small stores have smaller segments
  int64_t sort_bytes = int64_t{64} << 20;    ///< memory of arrange(), at least a segment's
  int queue_depth = 128;                     ///< reads under way at a time
  bool direct = true;    ///< O_DIRECT. Without effect where the file system refuses it.
  bool io_uring = true;  ///< otherwise, and where io_uring is refused, threads use pread and pwrite
};

/// Records in a file that has no name. It vanishes with the process however that ends, and other
/// stores, ranks and jobs may use the folder. usage_error if the file cannot be made, or for more
/// rows than 32-bit places can number (about 2.8 billion).
///
/// The file takes at most 1.5 times the bytes of the rows written, and 12 segments. Packing loses
/// up to an eighth of that. Rows that were never written take no space.
///
/// Rows of a read that lie in one block are read once, so large reads cost less. A write waits for
/// a read under way if it fills more than 8 segments meanwhile.
std::unique_ptr<RecordStore> make_ssd_records(int64_t rows, int64_t record_bytes,
                                              const SsdRecordsOptions& options);

}  // namespace dlrm
