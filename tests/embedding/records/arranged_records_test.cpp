#include <algorithm>
#include <random>

#include <gmock/gmock.h>

#include "disturbed_file.h"
#include "stores.h"

namespace dlrm::testing {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kRecordBytes = 128;

/// Records of rows that were written in a random order, in sorts of some segments each.
class ArrangedRecords : public ::testing::TestWithParam<int64_t> {
 protected:
  static constexpr int64_t kMany = 20'000;  // about 313 segments of 64 records

  ArrangedRecords() { SetUpStore(); }

  void SetUpStore() {
    SsdRecordsOptions options = small_segments(folder_.path());
    options.sort_bytes = GetParam() * options.segment_bytes;
    faults_->transfer = [this](const BlockTransfer& transfer) {
      if (!transfer.write) read_ += transfer.bytes;
      return Disturbance{};
    };
    store_ = std::make_unique<SsdRecords>(
        kMany, kRecordBytes, options,
        std::make_unique<DisturbedFile>(open_block_file(options), faults_));
  }
  void write_shuffled(Rows rows, int64_t version) {
    std::shuffle(rows.begin(), rows.end(), random_);
    write_version(*store_, rows, kRecordBytes, version);
  }
  int64_t blocks_read(const Rows& rows) {
    read_ = 0;
    read_records(*store_, rows, kRecordBytes);
    return read_ / 4096;
  }

  StoreFolder folder_;
  std::mt19937_64 random_{1};
  std::shared_ptr<FileFaults> faults_ = std::make_shared<FileFaults>();
  int64_t read_ = 0;
  std::unique_ptr<SsdRecords> store_;
};

TEST_P(ArrangedRecords, ConsecutiveRowsLieInAFewParts) {
  write_shuffled(row_range(0, kMany), 0);
  const Rows some = row_range(9000, 9640);  // 20 blocks
  EXPECT_GT(blocks_read(some), 300);
  store_->arrange();
  const int64_t sorts = (313 + GetParam() - 1) / GetParam();
  // Three blocks for each two of records, and two at the ends of a part.
  EXPECT_LE(blocks_read(some), 30 + 3 * sorts);
  write_shuffled(row_range(0, kMany, 3), 1);
  store_->arrange();
  EXPECT_LE(blocks_read(some), 45 + 6 * (sorts + 1));
  EXPECT_THAT(wrong_rows(*store_, row_range(0, kMany), kRecordBytes,
                         [](int64_t row) { return row % 3 == 0; }),
              IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Segments, ArrangedRecords, ::testing::Values(1, 60, 1000));

}  // namespace
}  // namespace dlrm::testing
