#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>

#include "record_padding.h"
#include "record_parts.h"
#include "record_store.h"
#include "zeroed_array.h"

namespace dlrm {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kWordBits = 64;
/// Rows are far apart in memory. So many rows ahead, a record is brought to the processor.
constexpr size_t kRecordsAhead = 16;

/// The records are there when the read starts.
class EndedRead final : public RecordRead {
 public:
  void finish() override {}
};

/// A bit for each row, set once the row was written. Other rows of a word may be read or written at
/// the same time, but not the same row.
class WrittenRows {
 public:
  explicit WrittenRows(int64_t rows) : words_((rows + kWordBits - 1) / kWordBits) {}
  bool test(int64_t row) const {
    return (word(row).load(std::memory_order_relaxed) & bit(row)) != 0;
  }
  void set(int64_t row) { word(row).fetch_or(bit(row), std::memory_order_relaxed); }
  void fetch_ahead(int64_t row) const { __builtin_prefetch(&words_[row / kWordBits], 1); }
  void clear() { words_.clear(); }

 private:
  static uint64_t bit(int64_t row) { return uint64_t{1} << (row % kWordBits); }
  std::atomic_ref<uint64_t> word(int64_t row) const {
    return std::atomic_ref<uint64_t>(words_[row / kWordBits]);
  }

  ZeroedArray<uint64_t> words_;
};

class MemoryRecords : public RecordStore {
 public:
  MemoryRecords(int64_t rows, int64_t record_bytes, const RecordPadding& padding, std::byte* data,
                int threads)
      : record_bytes_(record_bytes),
        threads_(threads),
        padding_(padding),
        data_(data),
        written_(rows) {}

  std::unique_ptr<RecordRead> start_read(View<const int64_t> rows, std::byte* out,
                                         uint8_t* written) override {
    const auto start = Clock::now();
    for_record_parts(rows.size(), threads_, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        if (i + kRecordsAhead < end) fetch_ahead(rows[i + kRecordsAhead]);
        written[i] = written_.test(rows[i]);
        if (!written[i]) continue;
        padding_.unpack(record(rows[i]), out + static_cast<int64_t>(i) * record_bytes_);
      }
    });
    count(traffic_.read, std::count(written, written + rows.size(), 1), start);
    return std::make_unique<EndedRead>();
  }

  void write(View<const int64_t> rows, const std::byte* records) override {
    const auto start = Clock::now();
    for_record_parts(rows.size(), threads_, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        if (i + kRecordsAhead < end) fetch_ahead(rows[i + kRecordsAhead]);
        padding_.pack(records + static_cast<int64_t>(i) * record_bytes_, record(rows[i]));
        written_.set(rows[i]);
      }
    });
    count(traffic_.written, static_cast<int64_t>(rows.size()), start);
  }

  void clear() override { written_.clear(); }

  TierTraffic traffic() const override {
    std::lock_guard lock(mutex_);
    return traffic_;
  }

  std::string description() const override { return "host memory"; }

 protected:
  std::byte* record(int64_t row) const { return data_ + row * padding_.bytes(); }

  void count(TierTraffic::Direction& direction, int64_t rows, Clock::time_point start) {
    std::lock_guard lock(mutex_);
    direction.rows += rows;
    direction.bytes += rows * record_bytes_;
    direction.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  }

  const int64_t record_bytes_;
  const int threads_;
  const RecordPadding padding_;
  std::byte* const data_;
  WrittenRows written_;
  mutable std::mutex mutex_;  // of traffic_
  TierTraffic traffic_;

 private:
  void fetch_ahead(int64_t row) {
    constexpr int64_t kLine = 64, kMostLines = 8;  // the processor fetches the rest by itself
    written_.fetch_ahead(row);
    for (int64_t at = 0; at < std::min(record_bytes_, kMostLines * kLine); at += kLine) {
      __builtin_prefetch(record(row) + at, 1);
    }
  }
};

/// Holds memory that is declared before the base that uses it.
struct PageableMemory {
  ZeroedArray<std::byte> memory;
};
struct PinnedMemory {
  Buffer memory;
};

class PageableRecords final : PageableMemory, public MemoryRecords {
 public:
  PageableRecords(int64_t rows, int64_t record_bytes, int threads)
      : PageableMemory{ZeroedArray<std::byte>(rows * record_bytes)},
        MemoryRecords(rows, record_bytes, RecordPadding(record_bytes), memory.data(), threads) {}

  void clear() override {
    MemoryRecords::clear();
    memory.clear();
  }
};

class PinnedRecords final : PinnedMemory, public MemoryRecords, public KernelRecords {
 public:
  PinnedRecords(Device& device, const SlotRecords& layout, const RecordPadding& padding,
                int64_t rows, int threads)
      : PinnedMemory{Buffer(device, static_cast<size_t>(rows * padding.bytes()), "cached rows",
                            MemoryKind::kHost)},
        MemoryRecords(rows, layout.bytes(), padding, static_cast<std::byte*>(memory.data()),
                      threads) {}

  KernelRecords* for_kernels() override { return this; }
  std::byte* data() const override { return data_; }
  int64_t stride() const override { return padding_.bytes(); }

  void reads(View<const int64_t> rows, const Draw& draw) override {
    const auto start = Clock::now();
    std::atomic<int64_t> found = 0;
    for_record_parts(rows.size(), threads_, [&](size_t begin, size_t end) {
      std::vector<std::byte> drawn(static_cast<size_t>(record_bytes_));
      int64_t found_here = 0;
      for (size_t i = begin; i < end; ++i) {
        if (i + kRecordsAhead < end) written_.fetch_ahead(rows[i + kRecordsAhead]);
        if (written_.test(rows[i])) {
          ++found_here;
          continue;
        }
        draw(rows[i], drawn.data());
        padding_.pack(drawn.data(), record(rows[i]));
        written_.set(rows[i]);
      }
      found += found_here;
    });
    count(traffic_.read, found, start);
  }

  void writes(View<const int64_t> rows) override {
    const auto start = Clock::now();
    for (const int64_t row : rows) written_.set(row);
    count(traffic_.written, std::ssize(rows), start);
  }

  std::string description() const override { return "pinned host memory"; }
};

}  // namespace

std::unique_ptr<RecordStore> make_memory_records(int64_t rows, int64_t record_bytes, int threads) {
  return std::make_unique<PageableRecords>(rows, record_bytes, threads);
}

std::unique_ptr<RecordStore> make_pinned_records(Device& device, const SlotRecords& layout,
                                                 int64_t rows, int threads) {
  return std::make_unique<PinnedRecords>(device, layout, RecordPadding(layout), rows, threads);
}

}  // namespace dlrm
