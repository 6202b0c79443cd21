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

}  // namespace
}  // namespace dlrm::comm
