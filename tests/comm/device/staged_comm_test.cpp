#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/device_comm.h"
#include "dlrm/comm/thread_comm.h"

#include "comm/device/staging.h"
#include "comm/device_suite.h"

namespace dlrm::comm {
namespace {

using dlrm::test::DeviceRank;

struct Setting {
  int ranks;
  bool cuda;
};

std::shared_ptr<Device> device_of(const Setting& setting) {
  return setting.cuda ? make_cuda_device(0) : make_cpu_device();
}

/// Runs `body` on every rank with a staged communicator; the ranks share one device.
void run_staged(const Setting& setting, const std::function<void(const DeviceRank&)>& body) {
  const std::shared_ptr<Device> device = device_of(setting);
  run_on_threads(setting.ranks, [&](Communicator& host) {
    const auto wire = make_device_comm(host, *device, {.kind = DeviceCommKind::kStaged});
    EXPECT_TRUE(wire->on_device());
    body({host, *wire, *device});
  });
}

class StagedComm : public testing::TestWithParam<Setting> {};

TEST_P(StagedComm, AlltoallvMovesBlocksBetweenDevices) {
  run_staged(GetParam(), test::check_device_alltoallv);
}
TEST_P(StagedComm, AllgathervCopiesEveryPartToEveryDevice) {
  run_staged(GetParam(), test::check_device_allgatherv);
}
TEST_P(StagedComm, BroadcastCopiesTheRootsData) {
  run_staged(GetParam(), test::check_device_broadcast);
}
TEST_P(StagedComm, AllreduceHasTheBitsOfTheHost) {
  run_staged(GetParam(), [](const DeviceRank& rank) { test::check_device_allreduce(rank, true); });
}
TEST_P(StagedComm, AllreduceOverBf16HasTheBitsOfTheHost) {
  run_staged(GetParam(), test::check_device_bf16_allreduce);
}
TEST_P(StagedComm, CallsInFlightMayBeAwaitedInAnyOrder) {
  run_staged(GetParam(), test::check_device_calls_in_flight);
}
TEST_P(StagedComm, CallsInTurnOnTwoStreamsKeepTheirHostMemoryApart) {
  run_staged(GetParam(), test::check_device_calls_in_turn);
}
TEST_P(StagedComm, DuplicatesKeepTheirCallsApart) {
  run_staged(GetParam(), test::check_device_duplicates);
}

TEST_P(StagedComm, AFailingRankEndsTheOthers) {
  if (GetParam().ranks == 1) GTEST_SKIP() << "one rank has no others to end";
  std::string what;
  try {
    run_staged(GetParam(), [](const DeviceRank& rank) {
      const std::unique_ptr<Stream> stream = rank.device.make_stream();
      Array<float> first(rank.device, 20000, "test"), second(rank.device, 20000, "test");
      Pending one = rank.wire.start_allreduce<float>(first.view(), DType::kFloat32, stream.get());
      if (rank.host.rank() == 1) throw run_error("rank one is unwell");
      Pending two = rank.wire.start_allreduce<float>(second.view(), DType::kFloat32, stream.get());
      two.wait(*stream);
      one.wait(*stream);
    });
  } catch (const Error& error) {
    what = error.what();
  }
  EXPECT_EQ(what, "rank one is unwell");
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const bool cuda : {false, true}) {
    if (cuda && cuda_device_count() == 0) continue;
    for (const int ranks : {1, 2, 3, 5}) all.push_back({ranks, cuda});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Everywhere, StagedComm, testing::ValuesIn(settings()),
                         [](const auto& info) {
                           return std::string(info.param.cuda ? "Cuda" : "Cpu") +
                                  std::to_string(info.param.ranks);
                         });

TEST(StagedAlone, BlocksAreCopiedBetweenTheirOffsets) {
  const std::shared_ptr<Device> device = make_cpu_device();
  const auto host = make_self_comm();
  const auto wire = make_device_comm(*host, *device);
  EXPECT_EQ(wire->describe(), "alone");
  EXPECT_FALSE(wire->blocks_host());
  const std::unique_ptr<Stream> stream = device->make_stream();
  Array<char> from(*device, 16, "test"), to(*device, 16, "test");
  std::iota(from.data(), from.data() + 16, char{1});
  ExchangeLayout layout;
  layout.send_bytes = {3}, layout.send_offsets = {5};
  layout.receive_bytes = {3}, layout.receive_offsets = {9};
  wire->start_alltoallv(from.data(), to.data(), layout, stream.get()).wait(*stream);
  stream->synchronize();
  const std::string expected("\0\0\0\0\0\0\0\0\0\6\7\10\0\0\0\0", 16);
  EXPECT_EQ(std::string(to.data(), 16), expected);
  layout.receive_bytes = {2};
  EXPECT_THROW(wire->start_alltoallv(from.data(), to.data(), layout, stream.get()), std::exception);
}

TEST(StagedMemory, BuffersAreReused) {
  const std::shared_ptr<Device> device = make_cpu_device();
  run_on_threads(2, [&](Communicator& host) {
    const auto wire = make_device_comm(host, *device, {.kind = DeviceCommKind::kStaged});
    const std::unique_ptr<Stream> stream = device->make_stream();
    Array<float> large(*device, 5000, "test"), small(*device, 10, "test");
    size_t settled = 0;
    for (int step = 0; step < 6; ++step) {
      Pending one = wire->start_allreduce<float>(large.view(), DType::kFloat32, stream.get());
      Pending two = wire->start_allreduce<float>(small.view(), DType::kFloat32, stream.get());
      one.wait(*stream);
      two.wait(*stream);
      host.barrier();
      if (step == 2) settled = device->bytes_in_use();
      if (step > 2) {
        EXPECT_EQ(device->bytes_in_use(), settled);
      }
      host.barrier();
    }
  });
}

TEST(StagedMemory, TheSmallestSufficientSlotIsTakenOrTheLargestGrows) {
  const std::shared_ptr<Device> device = make_cpu_device();
  Staging staging(*device);
  std::vector<std::unique_ptr<Staging::Slot>> slots;
  for (const int64_t bytes : {300, 100, 200}) slots.push_back(staging.acquire(bytes, bytes));
  const std::vector<const Staging::Slot*> known{slots[0].get(), slots[1].get(), slots[2].get()};
  for (auto& slot : slots) staging.release(std::move(slot));
  const auto taken = [&](int64_t send, int64_t receive) {
    std::unique_ptr<Staging::Slot> slot = staging.acquire(send, receive);
    EXPECT_GE(slot->send.size(), static_cast<size_t>(send));
    EXPECT_GE(slot->receive.size(), static_cast<size_t>(receive));
    const Staging::Slot* found = slot.get();
    staging.release(std::move(slot));
    return std::find(known.begin(), known.end(), found) - known.begin();
  };
  EXPECT_EQ(taken(50, 50), 1);
  EXPECT_EQ(taken(150, 10), 2);
  EXPECT_EQ(taken(10, 250), 0);
  EXPECT_EQ(taken(1000, 10), 0);
}

TEST(StagedMemory, TheSizeOfASlotIsThatOfBothDirections) {
  const std::shared_ptr<Device> device = make_cpu_device();
  struct Sizes {
    int64_t send, receive;
  };
  for (const auto& [large, small] :
       {std::pair{Sizes{100, 400}, Sizes{200, 150}}, std::pair{Sizes{400, 100}, Sizes{150, 200}}}) {
    Staging staging(*device);
    auto a = staging.acquire(large.send, large.receive);
    auto b = staging.acquire(small.send, small.receive);
    const Staging::Slot *const largest = a.get(), *const smallest = b.get();
    staging.release(std::move(a));
    staging.release(std::move(b));
    auto fits = staging.acquire(50, 50);
    EXPECT_EQ(fits.get(), smallest);
    staging.release(std::move(fits));
    EXPECT_EQ(staging.acquire(450, 450).get(), largest) << "it grows";
  }
}

TEST(StagedBlocks, EachByteIsStoredOnce) {
  // Blocks of 4 ranks: two overlap, one is separate, the rank's own one is left out.
  const std::vector<int64_t> bytes{10, 4, 8, 5}, offsets{100, 0, 105, 40};
  StagedBlocks blocks;
  blocks.lay_out(bytes, offsets, 1);
  ASSERT_EQ(blocks.runs.size(), 2u);
  EXPECT_EQ(blocks.total, 5 + 13);
  EXPECT_EQ(blocks.runs[0].offset, 40);
  EXPECT_EQ(blocks.runs[1].offset, 100);
  EXPECT_EQ(blocks.runs[1].bytes, 13);
  EXPECT_EQ(blocks.bytes, (std::vector<int64_t>{10, 0, 8, 5}));
  EXPECT_EQ(blocks.offsets[3], 0);
  EXPECT_EQ(blocks.offsets[0], 5);
  EXPECT_EQ(blocks.offsets[2], 10);
}

TEST(StagedBlocks, ABlockInsideAnotherAddsNothing) {
  const std::vector<int64_t> bytes{20, 4, 6, 3}, offsets{100, 0, 105, 120};
  StagedBlocks blocks;
  blocks.lay_out(bytes, offsets, 1);
  ASSERT_EQ(blocks.runs.size(), 1u);
  EXPECT_EQ(blocks.runs[0].bytes, 23);
  EXPECT_EQ(blocks.total, 23);
  EXPECT_EQ(blocks.offsets, (std::vector<int64_t>{0, 0, 5, 20}));
}

TEST(StagedBlocks, ASecondUseForgetsTheFirst) {
  StagedBlocks blocks;
  blocks.lay_out(std::vector<int64_t>{10, 4, 8, 5}, std::vector<int64_t>{100, 0, 105, 40}, 1);
  blocks.lay_out(std::vector<int64_t>{0, 6, 9}, std::vector<int64_t>{3, 70, 20}, 2);
  ASSERT_EQ(blocks.runs.size(), 1u);
  EXPECT_EQ(blocks.runs[0].offset, 70);
  EXPECT_EQ(blocks.runs[0].bytes, 6);
  EXPECT_EQ(blocks.runs[0].staged_offset, 0);
  EXPECT_EQ(blocks.total, 6);
  EXPECT_EQ(blocks.bytes, (std::vector<int64_t>{0, 6, 0}));
  EXPECT_EQ(blocks.offsets, std::vector<int64_t>(3));
  blocks.lay_out(std::vector<int64_t>{5, 0}, std::vector<int64_t>{8, 9}, 0);
  EXPECT_TRUE(blocks.runs.empty());
  EXPECT_EQ(blocks.total, 0);
}

TEST_P(StagedComm, SumsOnTwoStreamsKeepTheirHostMemoryApart) {
  run_staged(GetParam(), [](const DeviceRank& rank) {
    constexpr size_t kCount = 3000;
    const std::unique_ptr<Stream> first = rank.device.make_stream(),
                                  second = rank.device.make_stream();
    HostArray<float> shown(rank.device, kCount, "test");
    Array<float> one(rank.device, kCount, "test"), two(rank.device, kCount, "test");
    const auto ranks = static_cast<float>(rank.host.size());
    for (int round = 0; round < 20; ++round) {
      const auto fill = [&](Array<float>& data, float value, Stream& stream) {
        std::fill_n(shown.data(), kCount, value);
        rank.device.copy(data.data(), shown.data(), kCount * sizeof(float), stream);
        stream.synchronize();
      };
      fill(one, 1, *first);
      fill(two, 5, *second);
      // The host waits for neither: the second call may get the first one's memory.
      rank.wire.start_allreduce<float>(one.view(), DType::kFloat32, first.get()).wait(*first);
      rank.wire.start_allreduce<float>(two.view(), DType::kFloat32, second.get()).wait(*second);
      for (const auto& [data, stream, sum] :
           {std::tuple{&one, first.get(), ranks}, std::tuple{&two, second.get(), 5 * ranks}}) {
        rank.device.copy(shown.data(), data->data(), kCount * sizeof(float), *stream);
        stream->synchronize();
        EXPECT_EQ(std::count(shown.data(), shown.data() + kCount, sum), kCount) << round;
      }
    }
  });
}

TEST(DeviceComm, WithoutNcclTheCommunicatorIsStaged) {
  const std::shared_ptr<Device> device = make_cpu_device();
  ::testing::internal::CaptureStderr();
  run_on_threads(2, [&](Communicator& host) {
    EXPECT_EQ(make_device_comm(host, *device)->describe(), "staged");
  });
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::string warning =
      "GPUs exchange through the host (comm: staged), which is slow: rank 0: ";
  const size_t said = log.find(warning);
  EXPECT_NE(said, std::string::npos) << log;
  EXPECT_EQ(log.find(warning, said + 1), std::string::npos) << "rank 0 alone says it: " << log;
}

TEST(DeviceComm, TheObstacleToNcclIsNamed) {
  const std::shared_ptr<Device> device = make_cpu_device();
  try {
    run_on_threads(2, [&](Communicator& host) {
      make_device_comm(host, *device, {.kind = DeviceCommKind::kNccl});
    });
    FAIL() << "NCCL among CPUs";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("comm nccl: rank 0: "), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace dlrm::comm
