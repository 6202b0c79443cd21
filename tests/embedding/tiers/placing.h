#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/error.h"

#include "embedding/tiers/row_placement.h"
#include "embedding/training.h"

namespace dlrm::testing {

class Gate {
 public:
  void open() { set(true); }
  void close() { set(false); }
  void await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  void set(bool is_open) {
    {
      const std::lock_guard lock(mutex_);
      open_ = is_open;
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

/// What the stores of a placement were asked for.
struct Calls {
  Calls() { may_write.open(); }
  std::atomic<int64_t> writes_begun = 0, rows_written = 0, rows_read_twice = 0;
  std::atomic<int> reads_under_way = 0;
  std::atomic<bool> fails = false, write_fails = false;
  Gate reading, may_finish;  ///< the first read that is to be finished, and what it waits for
  Gate may_write;            ///< what writes wait for
};

class WatchedRecords final : public RecordStore {
 public:
  WatchedRecords(std::string name, int64_t rows, int64_t record_bytes, Calls& calls)
      : name_(std::move(name)), calls_(calls), store_(make_memory_records(rows, record_bytes)) {}

  std::unique_ptr<RecordRead> start_read(View<const int64_t> rows, std::byte* out,
                                         uint8_t* written) override {
    calls_.rows_read_twice +=
        static_cast<int64_t>(rows.size() - std::set<int64_t>(rows.begin(), rows.end()).size());
    return std::make_unique<Read>(*this, store_->start_read(rows, out, written));
  }
  void write(View<const int64_t> rows, const std::byte* records) override {
    ++calls_.writes_begun;
    calls_.may_write.await();
    if (calls_.write_fails) throw run_error("the disk of {} is full", name_);
    calls_.rows_written += static_cast<int64_t>(rows.size());
    store_->write(rows, records);
  }
  void clear() override { store_->clear(); }
  TierTraffic traffic() const override {
    TierTraffic traffic = store_->traffic();
    traffic.found_in_middle = name_ == "a" ? 100 : 1000;
    return traffic;
  }
  std::string description() const override { return "watched"; }

 private:
  struct Read final : RecordRead {
    Read(WatchedRecords& of, std::unique_ptr<RecordRead> watched)
        : records(of), read(std::move(watched)) {
      ++records.calls_.reads_under_way;
    }
    ~Read() override { --records.calls_.reads_under_way; }
    void finish() override {
      records.calls_.reading.open();
      records.calls_.may_finish.await();
      read->finish();
      if (records.calls_.fails) throw run_error("the disk of {} is gone", records.name_);
    }
    WatchedRecords& records;
    const std::unique_ptr<RecordRead> read;
  };

  const std::string name_;
  Calls& calls_;
  const std::unique_ptr<RecordStore> store_;
};

/// Caches "a" and "b" of 20 rows, with slots for 3.
class Placing : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 20;
  static constexpr int64_t kSlots = 3;

  Placing() {
    for (const char* name : {"a", "b"}) {
      TableConfig table;
      table.name = name;
      table.rows = kRows;
      table.dim = 4;
      const RowShape shape(table, {}, 1, {0, kRows}, {0, 4});
      placement_.add(std::make_unique<RowCache>(tools_, nullptr, std::vector<RowShape>{shape},
                                                kSlots, make_clock(),
                                                [&](const SlotRecords& layout) {
                                                  return std::make_unique<WatchedRecords>(
                                                      name, kRows, layout.bytes(), calls_);
                                                }),
                     [](int64_t slots) { return FastNeed{slots}; });
    }
  }
  ~Placing() override {
    calls_.may_finish.open();
    calls_.may_write.open();
  }

  /// Places a batch of rows of each cache. Its ids stay valid.
  int64_t place(std::vector<int64_t> a, std::vector<int64_t> b = {}) {
    const auto keep = [&](int cache, std::vector<int64_t>& rows) {
      ids_.push_back(std::move(rows));
      return PlacedIds{cache, ids_.back().data(), static_cast<int64_t>(ids_.back().size()), false};
    };
    const PlacedIds first = keep(0, a), second = keep(1, b);
    const int64_t batch = placement_.place({first, second});
    placement_.await_placed(batch);
    return batch;
  }
  /// A step that has its rows.
  void step(bool updates) {
    placement_.await();
    placement_.release(updates);
  }
  std::unique_ptr<RowStore> rows_of(int cache) {
    return placement_.cache(cache).rows_of(0, [this] { placement_.settle(); });
  }
  /// The weights of all rows, wherever they are.
  std::vector<float> weights(int cache) {
    std::vector<float> values(kRows * 4);
    rows_of(cache)->read(RowArray::kWeights, 0, kRows, values.data());
    return values;
  }

  Calls calls_;
  std::unique_ptr<Communicator> comm_ = make_self_comm();
  Rank rank_{*comm_};
  RowTools tools_{rank_.context, *rank_.ops};
  std::deque<std::vector<int64_t>> ids_;
  RowPlacement placement_{true};
};

}  // namespace dlrm::testing
