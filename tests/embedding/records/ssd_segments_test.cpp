// Segments of a store's file: which are written and read again, and when.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
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

// Segments are used again only if the file is as long as its live records allow.
TEST_F(SsdSegments, AreCompactedOnlyInALongFile) {
  const auto store = make();
  const Rows all = row_range(0, kSegmentRows);
  write_version(*store, shuffled(all), kSegmentRecordBytes, 0);
  int64_t read = 0;
  for (int64_t segment = 0; segment < 60; ++segment) {
    write_version(*store, segment_of(all), kSegmentRecordBytes, 1);
    const int64_t read_before = std::exchange(read, store->traffic().read.bytes);
    if (read > read_before) {
      EXPECT_EQ(length_, layout().segments_for(kSegmentRows) * layout().segment_bytes()) << segment;
    }
    // One segment makes room for another, and is read with the numbers of its rows.
    EXPECT_LE(read - read_before, 2 * layout().segment_bytes()) << segment;
  }
  EXPECT_GT(read, 0);
}

// The record of row 800 is moved while the first read has not begun to read it. The second read
// begins afterwards.
TEST_F(SsdSegments, WaitForTheOldestOfSeveralReads) {
  const auto store = make();
  write_version(*store, row_range(0, kSegmentRows), kSegmentRecordBytes, 0);
  const Rows first{5, 200, 400, 600, 800}, second{5};
  const auto start = [&](const Rows& rows, Records& records) {
    records = {std::vector<std::byte>(rows.size() * kSegmentRecordBytes),
               std::vector<uint8_t>(rows.size())};
    return store->start_read(rows, records.bytes.data(), records.written.data());
  };
  Records of_first, of_second;
  const auto first_read = start(first, of_first);
  Rows segment = row_range(800 / kSegment * kSegment, (800 / kSegment + 1) * kSegment);
  std::erase(segment, 800);
  write_version(*store, segment, kSegmentRecordBytes, 1);
  Rows others = row_range(kSegment, 768);
  for (const int64_t row : first) std::erase(others, row);
  const auto write_segment = [&] {
    write_version(*store, segment_of(others), kSegmentRecordBytes, 1);
  };
  while (store->traffic().read.bytes == 0) write_segment();
  const auto second_read = start(second, of_second);
  for (int64_t i = 0; i < SegmentTable::kSlack / 2; ++i) write_segment();
  second_read->finish();
  first_read->finish();
  for (size_t i = 0; i < first.size(); ++i) {
    for (int64_t at = 0; at < kSegmentRecordBytes; ++at) {
      ASSERT_EQ(of_first.bytes[i * kSegmentRecordBytes + static_cast<size_t>(at)],
                byte_of(first[i], 0, at))
          << first[i];
    }
  }
}

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
    of_reader = error_of(ExitCode::kFailure, [&] {
      read_records(*store, {0, 1}, kSegmentRecordBytes);
    });
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reads; });
  }
  of_writer = error_of(ExitCode::kFailure, [&] {
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
      const std::string error = error_of(ExitCode::kFailure, [&] {
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

TEST_F(SsdSegments, ThatADiskHasNoRoomForAreAnError) {
  faults_->resize = [](int64_t bytes) { return bytes > 100'000 ? ENOSPC : 0; };
  const auto store = make();
  EXPECT_EQ(
      error_of(ExitCode::kFailure,
               [&] { write_version(*store, row_range(0, kSegmentRows), kSegmentRecordBytes, 0); }),
      folder_.path() +
          ": rows of C3: cannot lengthen the file to 110592 bytes: No space left on device "
          "(errno 28); all rows written would take 430080; free space there, or set "
          "memory.cached.directory to a larger disk");
}

TEST_F(SsdSegments, ThreadsOfAQueueAreAsManyAsItsTransfersAndAtMostSixteen) {
  const auto threads = [] {
    int64_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      count += !entry.path().empty();
    }
    return count;
  };
  options_.io_uring = false;
  for (const auto& [depth, of_reader] : {std::pair(3, 3), std::pair(16, 16), std::pair(40, 16)}) {
    options_.queue_depth = depth;
    // Threads that have ended may be listed for a moment.
    int64_t started = 0;
    for (int attempt = 0; attempt < 50 && started != of_reader + 16; ++attempt) {
      const int64_t before = threads();
      const auto store = make();
      started = threads() - before;
    }
    EXPECT_EQ(started, of_reader + 16) << "with those of compaction";
  }
}

}  // namespace
}  // namespace dlrm::testing
