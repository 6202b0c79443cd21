#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dlrm/device/device.h"
#include "dlrm/ops/slot_copies.h"

#include "embedding/records/record_padding.h"
#include "embedding/records/record_store.h"
#include "slot_records.h"

namespace dlrm {

/// Moves records between the host and slots that are in a device's memory, on a stream of its own.
/// Records pass through blocks of pinned memory, or kernels read and write them where they are. One
/// thread may use it at a time, but released() may run beside it.
class RecordStream {
 public:
  /// `main` is the stream of the steps. At most `threads` threads of the host copy the records of a
  /// call.
  RecordStream(Device& device, Stream& main, int threads);
  ~RecordStream();
  RecordStream(const RecordStream&) = delete;
  RecordStream& operator=(const RecordStream&) = delete;

  int threads() const { return threads_; }
  /// Reserves blocks for the records of a cache. Call it before any copy.
  void reserve(const SlotRecords& records, int64_t slots);

  /// An event that is reached when the work that the main stream holds now is done.
  std::shared_ptr<Event> released();
  /// Copies made from now on start after `event`. The calling thread makes them.
  void begin(Event* event);
  /// Copies slots to records [slots.size()][records.bytes()]. Blocks until it is done.
  void gather(const SlotRecords& records, View<const int64_t> slots, std::byte* out);
  /// Copies records [slots.size()][records.bytes()] to slots, and the numbers `rows` to row_of.
  void scatter(const SlotRecords& records, const std::byte* in, View<const int64_t> slots,
               View<const int64_t> rows);
  /// Queues copies of the records of `rows` to slots, and of the numbers `rows` to row_of. Kernels
  /// read the records.
  void to_slots(const SlotRecords& records, const KernelRecords& from, View<const int64_t> slots,
                View<const int64_t> rows);
  /// Queues copies in the other direction.
  void from_slots(const SlotRecords& records, const KernelRecords& to, View<const int64_t> slots,
                  View<const int64_t> rows);
  /// Blocks until all copies are done.
  void finish();

 private:
  /// Slot numbers, then records.
  struct Block {
    Buffer host, device;
    std::unique_ptr<Event> done;
  };
  /// Of a block's records.
  struct Layout {
    RecordPadding padding;
    std::vector<SlotArray> arrays;  ///< the fields, then row_of
    int64_t stride = 0;             ///< bytes from record to record
  };
  static Layout layout_of(const SlotRecords& records);
  /// Calls work(block, first, count) for parts of [0, count) that fill a block.
  template <class Work>
  void each_part(int64_t stride, size_t count, const Work& work);
  /// Writes the slots of a block's records. Returns the block on the device.
  static SlotBlock put_slots(Block& block, View<const int64_t> slots, int64_t stride);
  /// Calls work(lists) for parts of the lists, which are then on the device: slots, and rows as the
  /// numbers of records.
  template <class Work>
  void each_list(View<const int64_t> slots, View<const int64_t> rows, const Work& work);

  Device& device_;
  Stream& main_;
  const int threads_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<SlotCopies> copies_;
  std::unique_ptr<Event> current_;
  Block blocks_[2];
  size_t next_ = 0;
  int64_t bytes_ = 0;                             ///< of a block
  std::vector<std::shared_ptr<Event>> released_;  ///< by the thread of the steps
};

}  // namespace dlrm
