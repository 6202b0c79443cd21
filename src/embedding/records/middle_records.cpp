#include <atomic>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "embedding/tiers/slot_map.h"
#include "record_store.h"
#include "zeroed_array.h"

namespace dlrm {
namespace {

class MiddleRecords final : public RecordStore {
 public:
  MiddleRecords(int64_t rows, int64_t record_bytes, int64_t slots,
                std::unique_ptr<RecordStore> slower)
      : record_bytes_(static_cast<size_t>(record_bytes)),
        slower_(std::move(slower)),
        map_(rows, slots, make_clock()),
        records_(slots * record_bytes) {}

  std::unique_ptr<RecordRead> start_read(View<const int64_t> rows, std::byte* out,
                                         uint8_t* written) override {
    auto read = std::make_unique<Read>(record_bytes_, out, written);
    std::vector<int64_t> missing;
    {
      const std::lock_guard lock(mutex_);
      for (size_t i = 0; i < rows.size(); ++i) {
        if (const std::byte* record = find(rows[i])) {
          std::memcpy(out + i * record_bytes_, record, record_bytes_);
          written[i] = 1;
          ++found_;
        } else {
          missing.push_back(rows[i]);
          read->positions.push_back(i);
        }
      }
    }
    read->records.resize(missing.size() * record_bytes_);
    read->written_here.resize(missing.size());
    read->slower = slower_->start_read(missing, read->records.data(), read->written_here.data());
    return read;
  }

  void write(View<const int64_t> rows, const std::byte* records) override {
    const auto most = static_cast<size_t>(map_.slots());
    for (size_t begin = 0; begin < rows.size(); begin += most) {
      const size_t count = std::min(most, rows.size() - begin);
      write_some(rows.subspan(begin, count), records + begin * record_bytes_);
    }
  }

  void arrange() override { slower_->arrange(); }

  void clear() override {
    map_.clear();
    slower_->clear();
  }

  TierTraffic traffic() const override {
    TierTraffic traffic = slower_->traffic();
    const std::lock_guard lock(mutex_);
    traffic.found_in_middle = found_;
    return traffic;
  }

  std::string description() const override { return "host memory over " + slower_->description(); }

 private:
  /// A read of the records that the slower store has.
  struct Read final : public RecordRead {
    Read(size_t bytes, std::byte* to, uint8_t* marks)
        : record_bytes(bytes), out(to), written(marks) {}

    void finish() override {
      slower->finish();
      for (size_t i = 0; i < positions.size(); ++i) {
        written[positions[i]] = written_here[i];
        std::memcpy(out + positions[i] * record_bytes, records.data() + i * record_bytes,
                    record_bytes);
      }
    }

    const size_t record_bytes;
    std::byte* const out;
    uint8_t* const written;
    std::vector<size_t> positions;  ///< of the rows in `out`
    std::vector<std::byte> records;
    std::vector<uint8_t> written_here;
    std::unique_ptr<RecordRead> slower;  // declared last, so that it ends before the records
  };

  /// The record of a row that is here. mutex_ is locked.
  const std::byte* find(int64_t row) {
    const int64_t slot = map_.slot_of(row);
    if (slot >= 0) return record(slot);
    const auto leaving = leaving_.find(row);
    return leaving != leaving_.end() ? leaving->second : nullptr;
  }
  std::byte* record(int64_t slot) {
    return records_.data() + static_cast<size_t>(slot) * record_bytes_;
  }

  /// Writes no more rows than there are slots. Reads take records that leave from `left_` until the
  /// slower tier has them.
  void write_some(View<const int64_t> rows, const std::byte* records) {
    slots_.assign(rows.begin(), rows.end());
    changes_.clear();
    left_rows_.clear();
    {
      const std::lock_guard lock(mutex_);
      map_.begin();
      map_.place(View<int64_t>(slots_), changes_);
      left_.resize(changes_.size() * record_bytes_);
      for (const SlotChange& change : changes_) {
        if (change.evicted < 0) continue;
        std::byte* to = left_.data() + left_rows_.size() * record_bytes_;
        std::memcpy(to, record(change.slot), record_bytes_);
        leaving_[change.evicted] = to;
        left_rows_.push_back(change.evicted);
      }
      for (size_t i = 0; i < slots_.size(); ++i) {
        std::memcpy(record(slots_[i]), records + i * record_bytes_, record_bytes_);
      }
      map_.release(/*updated=*/true);
    }
    slower_->write(left_rows_, left_.data());
    const std::lock_guard lock(mutex_);
    leaving_.clear();
  }

  const size_t record_bytes_;
  const std::unique_ptr<RecordStore> slower_;
  mutable std::mutex mutex_;  // of the members up to found_
  SlotMap map_;
  ZeroedArray<std::byte> records_;                         // of slots
  std::unordered_map<int64_t, const std::byte*> leaving_;  // by row
  int64_t found_ = 0;
  // Of write().
  std::vector<int64_t> slots_, left_rows_;
  std::vector<SlotChange> changes_;
  std::vector<std::byte> left_;
};

}  // namespace

std::unique_ptr<RecordStore> make_middle_records(int64_t rows, int64_t record_bytes, int64_t slots,
                                                 std::unique_ptr<RecordStore> slower) {
  return std::make_unique<MiddleRecords>(rows, record_bytes, slots, std::move(slower));
}

}  // namespace dlrm
