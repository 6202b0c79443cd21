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

TEST_P(BlockChannelTest, AReadIsUnderWayBeforeItsEndIsAwaited) {
  int started = 0;
  faults_->transfer = [&](const BlockTransfer&) {
    ++started;
    return Disturbance{};
  };
  const int submits = faults_->submits;
  const std::vector<BlockRange> ranges(30, BlockRange{3, 2});
  BlockChannel::Read read(*channel_, ranges, [](size_t, const std::byte*) {});
  EXPECT_EQ(started, 7);  // as many as the channel has buffers
  EXPECT_EQ(faults_->submits, submits + 1);
  read.finish();
  EXPECT_EQ(started, 30);
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

TEST_P(BlockChannelTest, AnErrorOfTheCallerLeavesNoTransferUnderWay) {
  const std::vector<BlockRange> ranges(30, BlockRange{3, 2});
  error_of(ExitCode::kFailure, [&] {
    BlockChannel::Read read(*channel_, ranges,
                            [](size_t, const std::byte*) { throw run_error("damaged"); });
    read.finish();
  });
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

/// Transfers of a channel, as "read 2 at 3": blocks.
std::string text_of(const BlockTransfer& transfer) {
  return fmt::format("{} {} at {}", transfer.write ? "write" : "read", transfer.bytes / kBlockBytes,
                     transfer.offset / kBlockBytes);
}

TEST_P(BlockChannelTest, AWriteHasTransfersOfAQuarterOfAMebibyte) {
  std::vector<std::string> list;
  faults_->transfer = [&](const BlockTransfer& transfer) {
    list.push_back(text_of(transfer));
    return Disturbance{};
  };
  const ZeroedArray<std::byte> data(190 * kBlockBytes);
  for (int64_t b = 0; b < 190; ++b) data[b * kBlockBytes] = byte_of(b + 10, 0, 0);
  for (const size_t blocks : {190, 128, 1}) {
    channel_->write(10, {data.data(), blocks * kBlockBytes});
  }
  EXPECT_THAT(list, ::testing::ElementsAre("write 64 at 10", "write 64 at 74", "write 62 at 138",
                                           "write 64 at 10", "write 64 at 74", "write 1 at 10"));
  EXPECT_EQ(channel_->bytes_written(), (kBlocks + 190 + 128 + 1) * kBlockBytes);
  EXPECT_EQ(wrong_ranges(), 0);
}

// A transfer of four blocks moves two and a half, then two are left, of which one moves.
TEST_P(BlockChannelTest, AnErrorNamesTheBlocksThatAreLeft) {
  const std::string again =
      "; the disk may be failing: resume with memory.cached.directory on "
      "another one";
  const std::string mend =
      "; resume with memory.cached.directory on another disk if this one "
      "cannot be mended";
  const std::pair<Disturbance, std::string> cases[] = {
      {{.error = EIO}, "Input/output error (errno 5)" + again},
      {{.error = ENXIO}, "No such device or address (errno 6)" + mend},
      {{.at_most = 0}, "only 0 bytes were moved" + mend}};
  for (const auto& [last, text] : cases) {
    std::vector<std::string> list;
    faults_->transfer = [&, end = last](const BlockTransfer& transfer) {
      list.push_back(text_of(transfer));
      if (list.size() == 3) return end;
      return Disturbance{.at_most = list.size() == 1 ? 5 * kBlockBytes / 2 : kBlockBytes};
    };
    const std::vector<BlockRange> ranges{{7, 4}};
    EXPECT_EQ(error_of(ExitCode::kFailure,
                       [&] {
                         BlockChannel::Read read(*channel_, ranges,
                                                 [](size_t, const std::byte*) { FAIL(); });
                         read.finish();
                       }),
              "file: cannot read 1 blocks at block 10: " + text);
    EXPECT_THAT(list, ::testing::ElementsAre("read 4 at 7", "read 2 at 9", "read 1 at 10"));
  }
  faults_->transfer = FileFaults().transfer;
  EXPECT_EQ(wrong_ranges(), 0);
}

TEST_P(BlockChannelTest, ATransferIsTriedAHundredTimesWithoutProgress) {
  for (const Disturbance& none : {Disturbance{.error = EINTR}, Disturbance{.error = EAGAIN},
                                  Disturbance{.at_most = kBlockBytes - 1}}) {
    for (const int failures : {99, 100}) {
      int tried = 0;
      faults_->transfer = [&](const BlockTransfer&) {
        return tried++ < failures ? none : Disturbance{};
      };
      const std::vector<BlockRange> ranges{{3, 2}};
      int arrived = 0;
      const auto read = [&] {
        BlockChannel::Read read(*channel_, ranges, [&](size_t, const std::byte*) { ++arrived; });
        read.finish();
      };
      if (failures == 99) {
        read();
        EXPECT_EQ(tried, 100);
      } else {
        EXPECT_THAT(error_of(ExitCode::kFailure, read),
                    ::testing::StartsWith(fmt::format(
                        "file: cannot read 2 blocks at block 3: only {} bytes were moved; resume",
                        none.error != 0 ? 0 : kBlockBytes - 1)));
        EXPECT_EQ(tried, 100);
      }
      EXPECT_EQ(arrived, failures == 99);
    }
  }
  faults_->transfer = FileFaults().transfer;
  EXPECT_EQ(wrong_ranges(), 0);
}

INSTANTIATE_TEST_SUITE_P(Engines, BlockChannelTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return info.param ? "uring" : "threads";
                         });

}  // namespace
}  // namespace dlrm::testing
