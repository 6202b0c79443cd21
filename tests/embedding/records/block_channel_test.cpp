#include "embedding/records/block_channel.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "disturbed_file.h"
#include "stores.h"

namespace dlrm::testing {
namespace {

constexpr int64_t kBlocks = 200;

class BlockChannelTest : public ::testing::TestWithParam<bool> {
 protected:
  BlockChannelTest() {
    SsdRecordsOptions options = small_segments(folder_.path());
    options.io_uring = GetParam();
    options.direct = false;  // it would refuse short transfers
    file_ = std::make_unique<DisturbedFile>(open_block_file(options), faults_);
    channel_ = std::make_unique<BlockChannel>(*file_, "file", 7, 4);
    EXPECT_EQ(file_->resize(kBlocks * kBlockBytes), 0);
    const ZeroedArray<std::byte> data(kBlocks * kBlockBytes);
    for (int64_t b = 0; b < kBlocks; ++b) data[b * kBlockBytes] = byte_of(b, 0, 0);
    channel_->write(0, {data.data(), static_cast<size_t>(data.size())});
  }

  /// Ranges that arrived with other bytes than were written, and ranges that did not arrive once.
  int64_t wrong_ranges() {
    std::vector<BlockRange> ranges;
    for (int64_t b = 0; b + 3 < kBlocks; b += 3) ranges.push_back({b, 1 + b % 4});
    std::vector<int> arrivals(ranges.size());
    int64_t wrong = 0;
    BlockChannel::Read read(*channel_, ranges, [&](size_t i, const std::byte* data) {
      ++arrivals[i];
      bool good = true;
      for (int64_t b = 0; b < ranges[i].count; ++b) {
        good = good && data[b * kBlockBytes] == byte_of(ranges[i].first + b, 0, 0);
      }
      wrong += !good;
    });
    read.finish();
    return wrong + std::count_if(arrivals.begin(), arrivals.end(), [](int n) { return n != 1; });
  }

  const StoreFolder folder_;
  const std::shared_ptr<FileFaults> faults_ = std::make_shared<FileFaults>();
  std::unique_ptr<BlockFile> file_;
  std::unique_ptr<BlockChannel> channel_;
};

TEST_P(BlockChannelTest, EveryRangeArrivesOnce) {
  EXPECT_EQ(wrong_ranges(), 0);
  EXPECT_EQ(channel_->bytes_written(), kBlocks * kBlockBytes);
  EXPECT_EQ(channel_->bytes_read(), 66 * kBlockBytes + (66 / 4 * 6 + 3) * kBlockBytes);
}

TEST_P(BlockChannelTest, ATransferThatFailsLeavesNoOtherUnderWay) {
  faults_->transfer = [count = 0](const BlockTransfer&) mutable {
    return Disturbance{.error = ++count == 5 ? EIO : 0};
  };
  error_of(ExitCode::kFailure, [&] { wrong_ranges(); });
  EXPECT_EQ(wrong_ranges(), 0);
}

TEST_P(BlockChannelTest, ATransferThatCannotStartLeavesNoOtherUnderWay) {
  faults_->transfer = [count = 0](const BlockTransfer&) mutable {
    if (++count == 5) throw run_error("no more transfers");
    return Disturbance{};
  };
  EXPECT_EQ(error_of(ExitCode::kFailure, [&] { wrong_ranges(); }), "no more transfers");
  EXPECT_EQ(wrong_ranges(), 0);
}

TEST_P(BlockChannelTest, AReadThatIsNotFinishedLeavesNoTransferUnderWay) {
  const std::vector<BlockRange> ranges(30, BlockRange{3, 2});
  {
    BlockChannel::Read read(*channel_, ranges, [](size_t, const std::byte*) { FAIL(); });
  }
  EXPECT_EQ(wrong_ranges(), 0);
}

TEST_P(BlockChannelTest, ReadsThatAreUnderWayTogetherEndAlone) {
  const std::vector<BlockRange> ranges(30, BlockRange{3, 2}), others = {{7, 1}, {9, 4}};
  int arrived = 0;
  BlockChannel::Read damaged(*channel_, ranges,
                             [](size_t, const std::byte*) { throw run_error("damaged"); });
  BlockChannel::Read good(*channel_, others, [&](size_t i, const std::byte* data) {
    arrived += data[0] == byte_of(others[i].first, 0, 0);
  });
  {
    BlockChannel::Read unfinished(*channel_, ranges, [](size_t, const std::byte*) { FAIL(); });
  }
  good.finish();
  EXPECT_EQ(arrived, 2);
  EXPECT_EQ(error_of(ExitCode::kFailure, [&] { damaged.finish(); }), "damaged");
  EXPECT_EQ(wrong_ranges(), 0);
}

INSTANTIATE_TEST_SUITE_P(Engines, BlockChannelTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return info.param ? "uring" : "threads";
                         });

}  // namespace
}  // namespace dlrm::testing
