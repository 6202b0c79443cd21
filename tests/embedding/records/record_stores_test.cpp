#include <algorithm>
#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stores.h"

namespace dlrm::testing {
namespace {

using ::testing::IsEmpty;

enum class Engine {
  kMiddle,
  kMemory,
  kMemoryOfThreads,
  kUring,
  kUringBuffered,
  kThreads,
  kThreadsBuffered
};

std::unique_ptr<RecordStore> make_store(Engine engine, const std::string& directory, int64_t rows,
                                        int64_t record_bytes) {
  if (engine == Engine::kMemory) return make_memory_records(rows, record_bytes);
  if (engine == Engine::kMemoryOfThreads) {
    return make_memory_records(rows, record_bytes, omp_get_max_threads());
  }
  SsdRecordsOptions options = small_segments(directory);
  options.io_uring =
      engine == Engine::kMiddle || engine == Engine::kUring || engine == Engine::kUringBuffered;
  options.direct = engine == Engine::kUring || engine == Engine::kThreads;
  auto store = make_ssd_records(rows, record_bytes, options);
  if (engine != Engine::kMiddle) return store;
  return make_middle_records(rows, record_bytes, rows / 3, std::move(store));
}

class EveryRecordStore : public ::testing::TestWithParam<std::tuple<Engine, int64_t>> {
 protected:
  Engine engine() const { return std::get<0>(GetParam()); }
  int64_t record_bytes() const { return std::get<1>(GetParam()); }
  /// Enough for about 15 segments, of the shortest records for 3.
  int64_t rows() const { return std::clamp<int64_t>(15 * 2 * 4096 / record_bytes(), 50, 3 * 4096); }
  std::unique_ptr<RecordStore> make() const {
    return make_store(engine(), folder_.path(), rows(), record_bytes());
  }

  StoreFolder folder_;
};

TEST_P(EveryRecordStore, ReadsTheRecordThatWasWrittenLast) {
  const auto store = make();
  std::mt19937_64 random(static_cast<uint64_t>(record_bytes()));
  Rows versions(static_cast<size_t>(rows()), -1);
  const auto version_of = [&](int64_t row) { return versions[static_cast<size_t>(row)]; };
  Rows all = row_range(0, rows());
  for (int64_t step = 0; step < 80; ++step) {
    std::shuffle(all.begin(), all.end(), random);
    const Rows some(all.begin(), all.begin() + static_cast<int64_t>(random() % all.size()) / 2);
    const uint64_t action = random() % 40;
    if (action == 0) {
      store->clear();
      std::fill(versions.begin(), versions.end(), -1);
    } else if (action < 4) {
      store->arrange();
    } else if (action < 25) {
      write_version(*store, some, record_bytes(), step);
      for (const int64_t row : some) versions[static_cast<size_t>(row)] = step;
    } else {
      ASSERT_THAT(wrong_rows(*store, some, record_bytes(), version_of), IsEmpty());
    }
  }
  EXPECT_THAT(wrong_rows(*store, all, record_bytes(), version_of), IsEmpty());
}

// The writer leaves so few records live in the oldest segments that compaction moves them while
// they are read.
TEST_P(EveryRecordStore, OneThreadReadsWhileAnotherWritesOtherRows) {
  const auto store = make();
  write_version(*store, row_range(0, rows()), record_bytes(), 0);
  Rows versions(static_cast<size_t>(rows()), 0);
  std::atomic<bool> done = false;
  std::thread writer([&] {
    std::mt19937_64 random(1);
    for (int64_t version = 1; version <= 20; ++version) {
      Rows some;
      for (int64_t row = 0; row < rows(); ++row) {
        if (row % 4 != 0 && random() % 2 == 0) some.push_back(row);
      }
      write_version(*store, some, record_bytes(), version);
      for (const int64_t row : some) versions[static_cast<size_t>(row)] = version;
    }
    done = true;
  });
  Rows wrong;
  const Rows constant = row_range(0, rows(), 4);
  for (int64_t reads = 0; !done || reads < 3; ++reads) {
    const Rows found = wrong_rows(*store, constant, record_bytes(), [](int64_t) { return 0; });
    wrong.insert(wrong.end(), found.begin(), found.end());
  }
  writer.join();
  EXPECT_THAT(wrong, IsEmpty());
  EXPECT_THAT(wrong_rows(*store, row_range(0, rows()), record_bytes(),
                         [&](int64_t row) { return versions[static_cast<size_t>(row)]; }),
              IsEmpty());
}

TEST_P(EveryRecordStore, CountsRowsAndBytes) {
  const auto store = make();
  const Rows first = row_range(0, 40), second = row_range(20, 50);
  write_version(*store, row_range(0, rows()), record_bytes(), 0);
  write_version(*store, first, record_bytes(), 1);
  read_records(*store, second, record_bytes());
  const TierTraffic traffic = store->traffic();
  if (engine() != Engine::kMiddle) {
    EXPECT_EQ(traffic.written.rows, rows() + 40);
  }
  EXPECT_EQ(traffic.read.rows + traffic.found_in_middle, 30);
  EXPECT_GT(traffic.written.bytes, 0);
  EXPECT_GT(traffic.written.seconds, 0);
  EXPECT_GT(traffic.read.seconds, 0);
  if (engine() == Engine::kMemory || engine() == Engine::kMemoryOfThreads) {
    EXPECT_EQ(traffic.read.bytes, 30 * record_bytes());
    EXPECT_EQ(traffic.written.bytes, traffic.written.rows * record_bytes());
    return;
  }
  // Most rows are no longer in memory.
  read_records(*store, row_range(0, rows()), record_bytes());
  const TierTraffic later = store->traffic();
  EXPECT_EQ(later.read.rows + later.found_in_middle, 30 + rows());
  EXPECT_GT(later.read.bytes, traffic.read.bytes);
  EXPECT_GT(later.read.seconds, traffic.read.seconds);
  EXPECT_EQ(later.read.bytes % 4096, 0);
  EXPECT_EQ(later.written.bytes, traffic.written.bytes);
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Engine, int64_t>>& info) {
  const char* const names[] = {"middle",         "memory",  "memory_of_threads", "uring",
                               "uring_buffered", "threads", "threads_buffered"};
  return fmt::format("{}_{}", names[static_cast<int>(std::get<0>(info.param))],
                     std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(RecordSizes, EveryRecordStore,
                         ::testing::Combine(::testing::Values(Engine::kMiddle, Engine::kMemory,
                                                              Engine::kMemoryOfThreads,
                                                              Engine::kUring, Engine::kThreads),
                                            ::testing::Values(1, 64, 128, 516, 2052, 4096, 5000)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Buffered, EveryRecordStore,
                         ::testing::Combine(::testing::Values(Engine::kUringBuffered,
                                                              Engine::kThreadsBuffered),
                                            ::testing::Values(128, 5000)),
                         name_of);

int64_t resident_bytes() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(MemoryRecords, RowsThatWereNeverWrittenTakeNoMemory) {
  constexpr int64_t kRows = int64_t{1} << 20, kRecordBytes = 1024;
  const int64_t before = resident_bytes();
  const auto store = make_memory_records(kRows, kRecordBytes);
  write_version(*store, row_range(0, kRows, kRows / 10), kRecordBytes, 1);
  read_records(*store, row_range(1, kRows, kRows / 10), kRecordBytes);
  EXPECT_LT(resident_bytes() - before, kRows * kRecordBytes / 16);
}

TEST(MemoryRecords, RowsThatAreForgottenGiveTheirMemoryBack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  constexpr int64_t kRows = int64_t{1} << 14, kRecordBytes = 4096;
  const auto store = make_memory_records(kRows, kRecordBytes);
  const int64_t before = resident_bytes();
  const std::vector<std::byte> records(1024 * kRecordBytes);
  for (int64_t row = 0; row < kRows; row += 1024) {
    store->write(row_range(row, row + 1024), records.data());
  }
  EXPECT_GT(resident_bytes() - before, kRows * kRecordBytes * 7 / 8);
  store->clear();
  EXPECT_LT(resident_bytes() - before, kRows * kRecordBytes / 4);
}

/// One thread writes all rows but the last of each 64, another one the last of the same 64. Goes on
/// until both have often run at the same time.
TEST(MemoryRecords, RowsThatThreadsWriteAtTheSameTimeAreAllKept) {
  constexpr int64_t kTogether = 64, kRows = 50'000 * kTogether, kBytes = 8, kOften = 2000;
  const auto store = make_memory_records(kRows, kBytes);
  const std::vector<std::byte> records(kTogether * kBytes, std::byte{7});
  std::atomic<int64_t> at{0}, others{0};
  std::thread other([&] {
    for (int64_t first; (first = at) < kRows; ++others) {
      store->write(Rows(kTogether, first + kTogether - 1), records.data());
    }
  });
  while (others == 0) std::this_thread::yield();
  int64_t end = 0;
  for (int64_t both = 0; end < kRows && both < kOften; end += kTogether) {
    const int64_t before = others;
    at = end;
    store->write(row_range(end, end + kTogether - 1), records.data());
    both += others != before;
  }
  at = kRows;
  other.join();
  const Records all = read_records(*store, row_range(0, end), kBytes);
  int64_t lost = 0;
  for (int64_t row = 0; row < end; ++row) {
    lost += row % kTogether != kTogether - 1 && all.written[static_cast<size_t>(row)] != 1;
  }
  EXPECT_EQ(lost, 0);
}

/// Pages that nobody may touch. Memory that is mapped later lies below them.
class GuardPages {
 public:
  GuardPages() {
    for (void*& page : pages_) {
      page = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
  }
  ~GuardPages() {
    for (void* page : pages_) ::munmap(page, 4096);
  }
  GuardPages(const GuardPages&) = delete;
  GuardPages& operator=(const GuardPages&) = delete;

 private:
  void* pages_[64] = {};
};

/// Memory tells which rows it holds in pages of 32768 bits.
TEST(MemoryRecords, HoldEveryRowAtTheEndOfAPageOfBits) {
  constexpr int64_t kBytes = 8, kPage = 8 * 4096;
  const GuardPages guards;
  for (const int64_t rows : {kPage - 63, kPage, kPage + 1, 2 * kPage - 1, 2 * kPage + 63}) {
    const auto store = make_memory_records(rows, kBytes);
    const Rows ends{0, 1, rows - 65, rows - 64, rows - 1};
    const std::vector<std::byte> zeros(ends.size() * kBytes);
    store->write(ends, zeros.data());
    Rows read = ends;
    read.push_back(63), read.push_back(rows - 2), read.push_back(rows - 66);
    std::vector<std::byte> records(read.size() * kBytes, std::byte{1});
    std::vector<uint8_t> written(read.size(), 2);
    store->read(read, records.data(), written.data());
    EXPECT_EQ(written, (std::vector<uint8_t>{1, 1, 1, 1, 1, 0, 0, 0})) << rows;
    records.resize(zeros.size());
    EXPECT_EQ(records, zeros) << rows;
  }
}

}  // namespace
}  // namespace dlrm::testing
