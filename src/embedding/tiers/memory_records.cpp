#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>

#include "record_parts.h"
#include "record_store.h"
#include "zeroed_array.h"

namespace dlrm {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kWordBits = 64;
/// Rows are far apart in memory. So many rows ahead, a record is brought to the processor.
constexpr size_t kAhead = 16;

/// The records are there when the read starts.
class EndedRead final : public RecordRead {
 public:
  void finish() override {}
};

class MemoryRecords final : public RecordStore {
 public:
  MemoryRecords(int64_t rows, int64_t record_bytes, int threads)
      : record_bytes_(record_bytes),
        threads_(threads),
        records_(rows * record_bytes),
        written_((rows + kWordBits - 1) / kWordBits) {}

  std::unique_ptr<RecordRead> start_read(View<const int64_t> rows, std::byte* out,
                                         uint8_t* written) override {
    const auto start = Clock::now();
    for_record_parts(rows.size(), threads_, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        if (i + kAhead < end) fetch_ahead(rows[i + kAhead]);
        written[i] = (word(rows[i]).load(std::memory_order_relaxed) & bit(rows[i])) != 0;
        if (!written[i]) continue;
        std::memcpy(out + static_cast<int64_t>(i) * record_bytes_, record(rows[i]), size());
      }
    });
    count(traffic_.read, std::count(written, written + rows.size(), 1), start);
    return std::make_unique<EndedRead>();
  }

  void write(View<const int64_t> rows, const std::byte* records) override {
    const auto start = Clock::now();
    for_record_parts(rows.size(), threads_, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        if (i + kAhead < end) fetch_ahead(rows[i + kAhead]);
        std::memcpy(record(rows[i]), records + static_cast<int64_t>(i) * record_bytes_, size());
        // Other rows of the word may be read or written at the same time, but not this one.
        word(rows[i]).fetch_or(bit(rows[i]), std::memory_order_relaxed);
      }
    });
    count(traffic_.written, static_cast<int64_t>(rows.size()), start);
  }

  void clear() override {
    written_.clear();
    records_.clear();
  }

  TierTraffic traffic() const override {
    std::lock_guard lock(mutex_);
    return traffic_;
  }

  std::string description() const override { return "host memory"; }

 private:
  size_t size() const { return static_cast<size_t>(record_bytes_); }
  std::byte* record(int64_t row) { return records_.data() + row * record_bytes_; }
  std::atomic_ref<uint64_t> word(int64_t row) {
    return std::atomic_ref<uint64_t>(written_[row / kWordBits]);
  }
  void fetch_ahead(int64_t row) {
    constexpr int64_t kLine = 64, kMostLines = 8;  // the processor fetches the rest by itself
    __builtin_prefetch(&written_[row / kWordBits], 1);
    for (int64_t at = 0; at < std::min(record_bytes_, kMostLines * kLine); at += kLine) {
      __builtin_prefetch(record(row) + at, 1);
    }
  }
  static uint64_t bit(int64_t row) { return uint64_t{1} << (row % kWordBits); }

  void count(TierTraffic::Direction& direction, int64_t rows, Clock::time_point start) {
    std::lock_guard lock(mutex_);
    direction.rows += rows;
    direction.bytes += rows * record_bytes_;
    direction.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  }

  const int64_t record_bytes_;
  const int threads_;
  ZeroedArray<std::byte> records_;
  ZeroedArray<uint64_t> written_;  // a bit a row
  mutable std::mutex mutex_;       // of traffic_
  TierTraffic traffic_;
};

}  // namespace

std::unique_ptr<RecordStore> make_memory_records(int64_t rows, int64_t record_bytes, int threads) {
  return std::make_unique<MemoryRecords>(rows, record_bytes, threads);
}

}  // namespace dlrm
