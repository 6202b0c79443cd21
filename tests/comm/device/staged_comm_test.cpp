#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
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

TEST_P(StagedComm, EachCallHasTheBitsOfTheHost) {
  run_staged(GetParam(), [](const DeviceRank& rank) { test::check_device_everything(rank, true); });
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
