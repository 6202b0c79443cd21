#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "dlrm/embedding/row_store.h"

#include "embedding/records/record_store.h"
#include "record_stream.h"
#include "slot_map.h"
#include "slot_records.h"

namespace dlrm {

/// Records that leave the fast tier, on their way to the slower one.
struct WriteBack {
  std::vector<int64_t> rows;
  std::vector<std::byte> records;
};

/// The rows of a slice in two tiers: slots in fast memory, and a store of all records. At any time
/// one copy of a row is valid: its slot, or the record of a WriteBack, or the store's, in this
/// order. Its RowStores are in row_cache_rows.cpp.
class RowCache {
 public:
  /// Slots in memory of the device for the column shards of a slice. `choice` decides which rows
  /// leave them. `make_store` gets the layout of the slots. `stream` is null if the host sees the
  /// device's memory.
  RowCache(RowTools& tools, RecordStream* stream, std::vector<RowShape> shards, int64_t slots,
           std::unique_ptr<SlotChoice> choice,
           const std::function<std::unique_ptr<RecordStore>(const SlotRecords&)>& make_store);

  int64_t rows() const { return shapes_.front().table.rows; }
  int64_t record_bytes() const { return layout_.bytes(); }
  const RecordStore& store() const { return *store_; }
  /// The rows of a shard. The store must not outlive this object. Its read(), write() and
  /// initialise() call `settle` first, which waits until nothing moves.
  std::unique_ptr<RowStore> rows_of(size_t shard, std::function<void()> settle);

  /// Decides which row is in which slot. Only the planner's thread calls it, unless all is settled.
  SlotMap& map() { return map_; }

  /// Takes the dirty rows of `changes` out of their slots. They are forwarded from the result until
  /// it is written. Null if there are none, or if kernels write them to the store.
  std::shared_ptr<WriteBack> evict(View<const SlotChange> changes);
  /// Rows on their way to slots. Ended unfinished, it waits for the transfers under way.
  struct Fetch {
    std::vector<int64_t> rows, slots;
    std::vector<std::byte> records;
    std::vector<uint8_t> written;                          ///< by row: 0 if it has no record
    std::vector<int64_t> forwarded_rows, forwarded_slots;  ///< whose records wait to be written
    std::vector<std::byte> forwarded;
    std::unique_ptr<RecordRead> read;  // declared last, so that it ends before the records
  };
  /// Starts to fill the slots of `changes`. No slot occurs twice, or is being filled.
  std::unique_ptr<Fetch> start_fetch(View<const SlotChange> changes);
  /// Waits until they are filled.
  void finish_fetch(std::unique_ptr<Fetch> fetch);
  /// Writes evicted records to the store. May run at the same time as evict() and fetch().
  void write(const WriteBack& evicted);

 private:
  class Chunk;
  class Rows;
  class AllRows;
  using Record = const std::byte*;

  void allocate(Device& device, const RowShape& shape);
  /// Copies slots to records, or records to slots.
  void gather(View<const int64_t> slots, std::byte* records) const;
  void scatter(const std::byte* records, View<const int64_t> slots, View<const int64_t> rows) const;
  /// Queues kernels that copy the store's records to the slots of a fetch.
  void fetch_by_kernels(const Fetch& fetch);
  void start_read(Fetch& fetch);
  /// Waits for the records, and draws those that were never written.
  void finish_read(Fetch& fetch);

  SlotMap map_;
  RecordStream* const stream_;
  std::vector<Buffer> memory_;
  std::vector<RowShape> shapes_;
  std::vector<RowTable> tables_;  ///< of slots, by shard
  SlotRecords layout_;
  std::unique_ptr<RecordStore> store_;
  KernelRecords* kernel_records_ = nullptr;  ///< of the store, if kernels move its records
  std::mutex mutex_;
  std::unordered_map<int64_t, Record> evicted_;  ///< by row, guarded by mutex_
  std::vector<int64_t> leaving_;                 ///< working memory of evict(): slots
  std::vector<std::unique_ptr<Fetch>> spare_;    ///< memory for the next fetches
  std::unique_ptr<SharedRows> all_rows_;         ///< of all shards, see RowStore::shared()
};

}  // namespace dlrm
