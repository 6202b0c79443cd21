#include "embedding/records/ssd_records.h"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "disturbed_file.h"
#include "stores.h"

namespace dlrm::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr int64_t kRecordBytes = 128;
constexpr int64_t kRows = 1000;

class SsdRecordsTest : public ::testing::Test {
 protected:
  std::unique_ptr<RecordStore> make() const {
    return make_ssd_records(kRows, kRecordBytes, options_);
  }
  /// A store whose file may be disturbed.
  std::unique_ptr<RecordStore> make_disturbed() const {
    return std::make_unique<SsdRecords>(
        kRows, kRecordBytes, options_,
        std::make_unique<DisturbedFile>(open_block_file(options_), faults_));
  }
  RecordLayout layout() const { return RecordLayout(kRows, kRecordBytes, options_); }

  const StoreFolder folder_;
  const SsdRecordsOptions options_ = small_segments(folder_.path());
  const std::shared_ptr<FileFaults> faults_ = std::make_shared<FileFaults>();
};

// Rows of a random order, so that segments are left with few live records and not with none.
TEST_F(SsdRecordsTest, RowsThatAreWrittenAgainAndAgainTakeBoundedSpace) {
  int64_t longest = 0;
  faults_->resize = [&](int64_t bytes) {
    longest = std::max(longest, bytes);
    return 0;
  };
  const auto store = make_disturbed();
  std::mt19937_64 random(1);
  Rows rows = row_range(0, kRows / 2);
  for (int64_t version = 0; version < 100; ++version) {
    std::shuffle(rows.begin(), rows.end(), random);
    write_version(*store, Rows(rows.begin(), rows.begin() + kRows / 4), kRecordBytes, version);
    if (version % 8 == 0) store->arrange();
  }
  const RecordLayout l = layout();
  const int64_t live_segments = (kRows / 2 + l.segment_records - 1) / l.segment_records;
  EXPECT_LE(longest, (live_segments * 3 / 2 + 4) * l.segment_bytes());
  EXPECT_GT(store->traffic().read.bytes, 0) << "nothing was compacted";
}

TEST_F(SsdRecordsTest, RowsThatWereNeverWrittenTakeNoSpace) {
  int64_t longest = 0, last = -1;
  faults_->resize = [&](int64_t bytes) {
    longest = std::max(longest, bytes);
    last = bytes;
    return 0;
  };
  const auto store = make_disturbed();
  EXPECT_EQ(longest, 0);
  write_version(*store, row_range(0, kRows, 50), kRecordBytes, 1);
  EXPECT_LE(longest, 2 * layout().segment_bytes());
  EXPECT_GT(last, 0);
  store->clear();
  EXPECT_EQ(last, 0);
}

TEST_F(SsdRecordsTest, AReadThatIsNotFinishedHoldsNoSegment) {
  int64_t longest = 0;
  faults_->resize = [&](int64_t bytes) {
    longest = std::max(longest, bytes);
    return 0;
  };
  const auto store = make_disturbed();
  const RecordLayout l = layout();
  const int64_t most = (l.most_segments - SegmentTable::kSlack) * l.segment_bytes();
  const Rows rows = row_range(0, kRows);
  write_version(*store, rows, kRecordBytes, 0);
  Records unread{std::vector<std::byte>(rows.size() * kRecordBytes),
                 std::vector<uint8_t>(rows.size())};
  store->start_read(rows, unread.bytes.data(), unread.written.data());
  // Segment by segment. The writer of a longer file would soon wait for the read.
  for (int64_t first = 0; first < 5 * kRows && longest <= most; first += l.segment_records) {
    const int64_t begin = first % (kRows - l.segment_records);
    write_version(*store, row_range(begin, begin + l.segment_records), kRecordBytes, 1);
  }
  EXPECT_LE(longest, most);
}

TEST_F(SsdRecordsTest, SeveralReadsAreUnderWayAtTheSameTime) {
  const auto store = make();
  write_version(*store, row_range(0, kRows), kRecordBytes, 3);
  const std::vector<Rows> lists = {row_range(0, 300), row_range(100, 700, 3), {999, 5}};
  std::vector<Records> records;
  std::vector<std::unique_ptr<RecordRead>> reads;
  for (const Rows& rows : lists) {
    records.push_back(
        {std::vector<std::byte>(rows.size() * kRecordBytes), std::vector<uint8_t>(rows.size())});
  }
  for (size_t i = 0; i < lists.size(); ++i) {
    reads.push_back(
        store->start_read(lists[i], records[i].bytes.data(), records[i].written.data()));
  }
  for (const size_t i : {1, 2, 0}) {
    reads[i]->finish();
    EXPECT_EQ(records[i].bytes, read_records(*store, lists[i], kRecordBytes).bytes) << i;
  }
  EXPECT_THAT(wrong_rows(*store, row_range(0, kRows), kRecordBytes, [](int64_t) { return 3; }),
              IsEmpty());
}

/// Holds the first transfer of a read until release().
class HeldRead {
 public:
  explicit HeldRead(FileFaults& faults) {
    faults.transfer = [this, first = true](const BlockTransfer& transfer) mutable {
      if (!transfer.write && first) {
        first = false;
        std::unique_lock lock(mutex_);
        held_ = true;
        changed_.notify_all();
        changed_.wait(lock, [&] { return released_; });
      }
      return Disturbance{};
    };
  }
  void await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_; });
  }
  void release() {
    std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false, released_ = false;
};

class HeldReadTest : public SsdRecordsTest {
 protected:
  /// Writes all rows but those of the read, in a new order.
  void rewrite(RecordStore& store, int64_t version) {
    Rows rows = row_range(8, kRows);
    std::shuffle(rows.begin(), rows.end(), random_);
    write_version(store, rows, kRecordBytes, version);
  }
  std::mt19937_64 random_{1};
};

// The rows of the read are the last ones of their segment. While the read waits, compaction moves
// them, and the segment could be used again.
TEST_F(HeldReadTest, RowsAreRightThatMoveWhileTheyAreRead) {
  const auto store = make_disturbed();
  write_version(*store, row_range(0, kRows), kRecordBytes, 0);
  write_version(*store, row_range(8, layout().segment_records), kRecordBytes, 1);
  HeldRead held(*faults_);
  Rows wrong;
  std::thread reader([&] {
    wrong = wrong_rows(*store, row_range(0, 8), kRecordBytes, [](int64_t) { return 0; });
  });
  held.await();
  Rows others = row_range(layout().segment_records, kRows);
  const auto write_segment = [&] {
    std::shuffle(others.begin(), others.end(), random_);
    write_version(*store, Rows(others.begin(), others.begin() + layout().segment_records),
                  kRecordBytes, 2);
  };
  while (store->traffic().read.bytes == 0) write_segment();
  for (int64_t segment = 0; segment < SegmentTable::kSlack / 2; ++segment) write_segment();
  held.release();
  reader.join();
  EXPECT_THAT(wrong, IsEmpty());
}

TEST_F(HeldReadTest, ALongReadDoesNotLetTheFileGrowBeyondItsBound) {
  std::mutex mutex;
  std::condition_variable grown;
  int64_t longest = 0;
  faults_->resize = [&](int64_t bytes) {
    std::lock_guard lock(mutex);
    longest = std::max(longest, bytes);
    grown.notify_all();
    return 0;
  };
  const auto store = make_disturbed();
  rewrite(*store, 0);
  write_version(*store, row_range(0, 8), kRecordBytes, 0);
  rewrite(*store, 1);
  const int64_t most = layout().most_segments * layout().segment_bytes();
  HeldRead held(*faults_);
  Rows wrong;
  std::thread reader([&] {
    wrong = wrong_rows(*store, row_range(0, 8), kRecordBytes, [](int64_t) { return 0; });
  });
  held.await();
  bool written = false;
  std::thread writer([&] {
    for (int64_t version = 2; version < 12; ++version) rewrite(*store, version);
    std::lock_guard lock(mutex);
    written = true;
    grown.notify_all();
  });
  {
    std::unique_lock lock(mutex);
    grown.wait(lock, [&] { return longest >= most || written; });
    // Time for a mistake to show. It decides nothing else.
    grown.wait_for(lock, std::chrono::milliseconds(50), [&] { return longest > most; });
  }
  held.release();
  reader.join();
  writer.join();
  EXPECT_EQ(longest, most);
  EXPECT_THAT(wrong, IsEmpty());
  EXPECT_THAT(wrong_rows(*store, row_range(8, kRows), kRecordBytes, [](int64_t) { return 11; }),
              IsEmpty());
}

TEST_F(SsdRecordsTest, AnyNameOfATableWillDo) {
  for (const std::string& name : {std::string("a/b/c"), std::string(300, 'x')}) {
    SsdRecordsOptions options = options_;
    options.name = name;
    const auto store = make_ssd_records(kRows, kRecordBytes, options);
    write_version(*store, row_range(0, kRows), kRecordBytes, 1);
    EXPECT_THAT(wrong_rows(*store, row_range(0, kRows), kRecordBytes, [](int64_t) { return 1; }),
                IsEmpty());
  }
}

TEST_F(SsdRecordsTest, StoresOfOneFolderAndNameDoNotMeet) {
  const auto first = make(), second = make();
  write_version(*first, row_range(0, kRows), kRecordBytes, 1);
  write_version(*second, row_range(0, kRows), kRecordBytes, 2);
  const auto third = make();
  const Rows all = row_range(0, kRows);
  EXPECT_THAT(wrong_rows(*first, all, kRecordBytes, [](int64_t) { return 1; }), IsEmpty());
  EXPECT_THAT(wrong_rows(*second, all, kRecordBytes, [](int64_t) { return 2; }), IsEmpty());
  EXPECT_THAT(wrong_rows(*third, all, kRecordBytes, [](int64_t) { return -1; }), IsEmpty());
}

TEST_F(SsdRecordsTest, LeftoversOfAKilledRunAreRemovedAndOtherFilesAreNot) {
  for (const char* name : {"dlrm-rows.C3.a1B2c3", "dlrm-rows.C4.zzzzzz", "other"}) {
    std::ofstream(folder_.path() + "/" + name);
  }
  ASSERT_EQ(::mkfifo((folder_.path() + "/dlrm-rows.fifo").c_str(), 0600), 0);
  std::ofstream(folder_.path() + "/dlrm-rows.txt") << "a user's";
  const auto store = make();
  EXPECT_THAT(folder_.names(),
              ::testing::UnorderedElementsAre("other", "dlrm-rows.txt", "dlrm-rows.fifo"));
}

TEST_F(SsdRecordsTest, AKilledProcessLeavesNothing) {
  const int status = in_child([&] {
    const auto store = make();
    write_version(*store, row_range(0, kRows), kRecordBytes, 1);
    return raise(SIGKILL) == 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_THAT(folder_.names(), IsEmpty());
}

TEST_F(SsdRecordsTest, UringAndDirectTransfersCanBeSwitchedOff) {
  SsdRecordsOptions options = options_;
  options.io_uring = options.direct = false;
  EXPECT_EQ(make_ssd_records(kRows, kRecordBytes, options)->description(),
            "pread and pwrite without O_DIRECT");
}

TEST_F(SsdRecordsTest, AStoreWorksInMemory) {
  const StoreFolder folder("/dev/shm");
  const auto store = make_ssd_records(kRows, kRecordBytes, small_segments(folder.path()));
  write_version(*store, row_range(0, kRows), kRecordBytes, 1);
  EXPECT_THAT(wrong_rows(*store, row_range(0, kRows), kRecordBytes, [](int64_t) { return 1; }),
              IsEmpty());
}

TEST_F(SsdRecordsTest, FoldersThatAreMissingAreMade) {
  const std::string folder = folder_.path() + "/not/there";
  EXPECT_NO_THROW(make_ssd_records(kRows, kRecordBytes, small_segments(folder)));
  EXPECT_TRUE(std::filesystem::is_directory(folder));
}

TEST_F(SsdRecordsTest, AFolderThatCannotBeUsedIsRefused) {
  std::ofstream(folder_.path() + "/file") << "x";
  const auto error_in = [&](const std::string& folder) {
    return usage_error_of([&] { make_ssd_records(kRows, kRecordBytes, small_segments(folder)); });
  };
  EXPECT_THAT(error_in(folder_.path() + "/file"), HasSubstr("memory.cached.directory must name"));
  EXPECT_THAT(error_in("/proc"), AllOf(StartsWith("/proc: cannot create a file"),
                                       HasSubstr("memory.cached.directory must name")));
}

}  // namespace
}  // namespace dlrm::testing
