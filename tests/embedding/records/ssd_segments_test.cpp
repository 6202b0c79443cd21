// Segments of a store's file: which are written and read again, and when.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "disturbed_file.h"
#include "stores.h"

namespace dlrm::testing {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kSegmentRecordBytes = 128;
constexpr int64_t kSegmentRows =
    1000;  // about 16 segments of 64 records, in two blocks and one of rows
constexpr int64_t kSegment = 64;

class SsdSegments : public ::testing::Test {
 protected:
  SsdSegments() {
    options_.queue_depth = 2;
    faults_->resize = [this](int64_t bytes) {
      length_ = bytes;
      return 0;
    };
  }
  std::unique_ptr<RecordStore> make(int64_t rows, int64_t record_bytes) const {
    return std::make_unique<SsdRecords>(
        rows, record_bytes, options_,
        std::make_unique<DisturbedFile>(open_block_file(options_), faults_));
  }
  std::unique_ptr<RecordStore> make() const { return make(kSegmentRows, kSegmentRecordBytes); }
  RecordLayout layout() const { return RecordLayout(kSegmentRows, kSegmentRecordBytes, options_); }
  Rows shuffled(Rows rows) {
    std::shuffle(rows.begin(), rows.end(), random_);
    return rows;
  }
  /// Some of the rows, as many as a segment has.
  Rows segment_of(const Rows& rows) {
    const Rows some = shuffled(rows);
    return Rows(some.begin(), some.begin() + kSegment);
  }

  const StoreFolder folder_;
  SsdRecordsOptions options_ = small_segments(folder_.path());
  const std::shared_ptr<FileFaults> faults_ = std::make_shared<FileFaults>();
  int64_t length_ = 0;  ///< of the file
  std::mt19937_64 random_{1};
};

// A record is moved while two reads are under way. The older one ends, and the other has not begun.
TEST_F(SsdSegments, WaitForEachReadThatWasUnderWayWhenTheyBecameFree) {
  options_.queue_depth = 16;
  bool holds = false;  // transfers refer to it as long as there is a store
  for (const bool arranges : {false, true}) {
    SCOPED_TRACE(arranges);
    const auto store = make();
    Rows all = row_range(0, kSegmentRows);
    // Only this segment has something to sort, or only few live records.
    const int64_t begin = 8 * kSegment, row = begin + 5;
    if (arranges) std::shuffle(&all[begin], &all[begin + kSegment], random_);
    write_version(*store, all, kSegmentRecordBytes, 0);
    faults_->transfer = [&](const BlockTransfer&) { return Disturbance{.held = holds}; };
    Records older{std::vector<std::byte>(kSegmentRecordBytes), {7}}, newer = older;
    const Rows of_older{0}, of_newer{row};
    const auto first = store->start_read(of_older, older.bytes.data(), older.written.data());
    holds = true;
    const auto second = store->start_read(of_newer, newer.bytes.data(), newer.written.data());
    holds = false;
    const int64_t read_before = store->traffic().read.bytes;
    const auto write_others = [&](int64_t version) {
      write_version(*store, segment_of(row_range(kSegment, begin)), kSegmentRecordBytes, version);
    };
    if (arranges) {
      store->arrange();
    } else {
      Rows dead = row_range(begin, begin + kSegment);
      std::erase(dead, row);
      write_version(*store, dead, kSegmentRecordBytes, 1);
      for (int i = 0; store->traffic().read.bytes == read_before && i < 20; ++i) write_others(1);
    }
    ASSERT_GT(store->traffic().read.bytes, read_before);
    first->finish();
    for (int i = 0; i < 3; ++i) write_others(2);
    second->finish();
    for (int64_t at = 0; at < kSegmentRecordBytes; ++at) {
      ASSERT_EQ(newer.bytes[static_cast<size_t>(at)], byte_of(row, 0, at));
    }
  }
}

// The writer has used every segment that the read leaves it. The read then fails.
TEST_F(SsdSegments, AWriterDoesNotWaitForAReadThatCouldNotStart) {
  std::mutex mutex;
  std::condition_variable changed;
  bool reads = false;
  const int64_t most = layout().most_segments * layout().segment_bytes();
  const auto store = make();
  write_version(*store, row_range(0, kSegmentRows), kSegmentRecordBytes, 0);
  faults_->resize = [&](int64_t bytes) {
    const std::lock_guard lock(mutex);
    length_ = bytes;
    changed.notify_all();
    return 0;
  };
  faults_->transfer = [&, first = std::make_shared<bool>(true)](const BlockTransfer& transfer) {
    std::unique_lock lock(mutex);
    if (!transfer.write && std::exchange(*first, false)) {
      reads = true;
      changed.notify_all();
      changed.wait(lock, [&] { return length_ == most; });
      // Time for the writer to wait. It decides nothing else.
      changed.wait_for(lock, std::chrono::milliseconds(50), [] { return false; });
      throw run_error("no more transfers");
    }
    return Disturbance{};
  };
  std::string of_reader, of_writer;
  std::thread reader([&] {
    of_reader = run_error_of([&] { read_records(*store, {0, 1}, kSegmentRecordBytes); });
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reads; });
  }
  of_writer = run_error_of([&] {
    for (int version = 1; version < 50; ++version) {
      write_version(*store, shuffled(row_range(8, kSegmentRows)), kSegmentRecordBytes, version);
    }
  });
  reader.join();
  EXPECT_EQ(of_reader, "no more transfers");
  EXPECT_EQ(of_writer, "no more transfers");
}

/// Writes all rows, then some of them again and again, and arranges the records.
void use(RecordStore& store, int64_t rows, int64_t record_bytes, std::mt19937_64& random) {
  Rows all = row_range(0, rows), versions(static_cast<size_t>(rows), 0);
  const auto wrong = [&] {
    return wrong_rows(store, row_range(0, rows), record_bytes,
                      [&](int64_t row) { return versions[static_cast<size_t>(row)]; });
  };
  write_version(store, all, record_bytes, 0);
  for (int64_t version = 1; version < 8; ++version) {
    std::shuffle(all.begin(), all.end(), random);
    const Rows some(all.begin(), all.begin() + rows / 2);
    write_version(store, some, record_bytes, version);
    for (const int64_t row : some) versions[static_cast<size_t>(row)] = version;
  }
  EXPECT_THAT(wrong(), IsEmpty());
  store.arrange();
  EXPECT_THAT(wrong(), IsEmpty());
}

// A transfer has eight blocks, or as many as a record.
TEST_F(SsdSegments, MayHaveRecordsThatAreLongerThanMostTransfers) {
  for (const int64_t record_bytes : {8 * 4096 + 1, 40'000}) {
    SCOPED_TRACE(record_bytes);
    use(*make(12, record_bytes), 12, record_bytes, random_);
  }
}

TEST_F(SsdSegments, MayHaveTheNumbersOfTheirRowsInSeveralTransfers) {
  constexpr int64_t kMany = 40'000;
  options_.segment_bytes = 64 << 10;
  const RecordLayout layout(kMany, 1, options_);
  ASSERT_GT(layout.segment_blocks - layout.data_blocks, 8);
  int64_t reads = 0;
  faults_->transfer = [&](const BlockTransfer& transfer) {
    const int64_t block = transfer.offset / kBlockBytes % layout.segment_blocks;
    reads += !transfer.write && block >= layout.data_blocks;
    return Disturbance{};
  };
  use(*make(kMany, 1), kMany, 1, random_);
  EXPECT_GT(reads, 1) << "nothing was arranged";
}

// Of a segment that is compacted or sorted, a block with the numbers of its rows is damaged.
TEST_F(SsdSegments, DamagedNumbersOfRowsAreFound) {
  for (const bool arranges : {false, true}) {
    for (const int64_t at : {0, 77, 1024, 4095}) {
      const auto store = make();
      faults_->transfer = [at](const BlockTransfer& transfer) {
        const bool of_rows =
            transfer.bytes == kBlockBytes && transfer.offset / kBlockBytes % 3 == 2;
        return Disturbance{.damaged = !transfer.write && of_rows, .at = at};
      };
      write_version(*store, shuffled(row_range(0, kSegmentRows)), kSegmentRecordBytes, 0);
      const std::string error = run_error_of([&] {
        if (arranges) return store->arrange();
        for (int64_t version = 1; version < 20; ++version) {
          write_version(*store, segment_of(row_range(0, kSegmentRows)), kSegmentRecordBytes,
                        version);
        }
      });
      const size_t block = error.find("block ");
      ASSERT_NE(block, std::string::npos) << error;
      EXPECT_EQ(std::stol(error.substr(block + 6)) % 3, 2) << error;
      EXPECT_THAT(error, ::testing::HasSubstr(" is damaged: its checksum is "));
    }
  }
}

}  // namespace
}  // namespace dlrm::testing
