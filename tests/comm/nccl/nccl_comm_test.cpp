// NcclComm over the emulator's stand-in for NCCL. Ranks are threads that share one GPU.
#if defined(DLRM_SIMT)
#include "comm/device/nccl_comm.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/device_comm.h"
#include "dlrm/comm/thread_comm.h"

#include "comm/calls/progress_engine.h"
#include "comm/device_suite.h"
#include "error_of.h"
#include "kernels/simt/stand_ins/comm/fake_nccl.h"
#include "nccl_ranks.h"

namespace dlrm::comm {
namespace {

using dlrm::test::DeviceRank;
using dlrm::test::run_nccl;

std::string failure_of(int ranks, const std::function<void(const DeviceRank&)>& body) {
  return error_of([&] { run_nccl(ranks, body); });
}

class NcclComm : public testing::TestWithParam<int> {};

TEST_P(NcclComm, EachCallHasTheBitsOfTheHost) {
  run_nccl(GetParam(), [](const DeviceRank& rank) { test::check_device_everything(rank, false); });
}

INSTANTIATE_TEST_SUITE_P(Threads, NcclComm, testing::Values(1, 2, 3, 5));

TEST(NcclStream, AWaitDoesNotBlockTheHost) {
  run_nccl(2, [](const DeviceRank& rank) {
    EXPECT_FALSE(rank.wire.blocks_host());
    EXPECT_EQ(rank.wire.describe(), "nccl 2.28.9");
    const std::unique_ptr<Stream> stream = rank.device.make_stream();
    Array<float> data(rank.device, 1000, "test");
    Pending pending = rank.wire.start_allreduce<float>(data.view(), DType::kFloat32, stream.get());
    pending.wait(*stream);
    const std::unique_ptr<Event> end = rank.device.make_event();
    stream->record(*end);
    EXPECT_TRUE(pending.done());
    end->synchronize();
  });
}

/// Calls of `wire` that are captured once run at every launch.
void check_graph(Communicator& wire, Device& device) {
  const std::unique_ptr<Stream> stream = device.make_stream();
  HostArray<int64_t> shown(device, 1, "test");
  Array<int64_t> from(device, 1, "test"), to(device, 1, "test");
  stream->begin_capture();
  Pending moved =
      wire.start_alltoallv(from.data(), to.data(), ExchangeLayout::packed({8}, {8}), stream.get());
  EXPECT_FALSE(moved.poll());  // as training does between layers
  EXPECT_THROW(moved.wait(), std::exception) << "the host waits for a part of a graph";
  moved.wait(*stream);
  wire.start_allreduce<int64_t>(to.view(), DType::kFloat32, stream.get()).wait(*stream);
  const std::unique_ptr<Graph> graph = stream->end_capture();
  for (const int64_t value : {5, 9}) {
    shown[0] = value;
    device.copy(from.data(), shown.data(), 8, *stream);
    graph->launch(*stream);
    device.copy(shown.data(), to.data(), 8, *stream);
    stream->synchronize();
    EXPECT_EQ(shown[0], value);
  }
}

TEST(NcclGraph, CapturedCallsRunAtEveryLaunch) {
  run_nccl(1, [](const DeviceRank& rank) { check_graph(rank.wire, rank.device); });
}

/// One captured graph exchanges the values of all ranks and adds them.
TEST(NcclGraph, SeveralRanksExchangeAtEveryLaunch) {
  run_nccl(3, [](const DeviceRank& rank) {
    const int64_t me = rank.host.rank();
    const std::unique_ptr<Stream> stream = rank.device.make_stream();
    HostArray<int64_t> shown(rank.device, 4, "test");
    Array<int64_t> from(rank.device, 3, "test"), to(rank.device, 3, "test");
    Array<int64_t> sum(rank.device, 1, "test");
    stream->begin_capture();
    rank.wire
        .start_alltoallv(from.data(), to.data(), ExchangeLayout::packed({8, 8, 8}, {8, 8, 8}),
                         stream.get())
        .wait(*stream);
    rank.device.copy(sum.data(), to.data() + 1, 8, *stream);
    rank.wire.start_allreduce<int64_t>(sum.view(), DType::kFloat32, stream.get()).wait(*stream);
    const std::unique_ptr<Graph> graph = stream->end_capture();
    for (int64_t launch = 0; launch < 4; ++launch) {
      for (int64_t q = 0; q < 3; ++q) {
        shown[static_cast<size_t>(q)] = 100 * launch + 10 * me + q;
      }
      rank.device.copy(from.data(), shown.data(), 24, *stream);
      graph->launch(*stream);
      rank.device.copy(shown.data(), to.data(), 24, *stream);
      rank.device.copy(shown.data() + 3, sum.data(), 8, *stream);
      stream->synchronize();
      for (int64_t q = 0; q < 3; ++q) {
        EXPECT_EQ(shown[static_cast<size_t>(q)], 100 * launch + 10 * q + me);
      }
      EXPECT_EQ(shown[3], 300 * launch + 33);
    }
  });
}

TEST(StagedGraph, CapturedCallsOfOneRankRunAtEveryLaunch) {
  const std::shared_ptr<Device> device = make_cuda_device(0);
  const auto host = make_self_comm();
  const auto wire = make_device_comm(*host, *device);
  EXPECT_FALSE(wire->blocks_host());
  check_graph(*wire, *device);
}

TEST(NcclFailure, AFailingRankEndsTheOthers) {
  EXPECT_EQ(failure_of(3,
                       [](const DeviceRank& rank) {
                         const std::unique_ptr<Stream> stream = rank.device.make_stream();
                         Array<float> data(rank.device, 5000, "test");
                         if (rank.host.rank() == 2) throw run_error("rank two is unwell");
                         rank.wire
                             .start_allreduce<float>(data.view(), DType::kFloat32, stream.get())
                             .wait(*stream);
                       }),
            "rank two is unwell");
}

TEST(NcclFailure, TheWatchdogReportsAFailureAndTheNextCallThrows) {
  const std::string what = failure_of(2, [](const DeviceRank& rank) {
    const std::unique_ptr<Stream> stream = rank.device.make_stream();
    Array<float> data(rank.device, 5000, "test");
    Pending pending = rank.wire.start_allreduce<float>(data.view(), DType::kFloat32, stream.get());
    EXPECT_EQ(rank.host.engine()->monitor().failure(), "");
    rank.host.barrier();
    if (rank.host.rank() == 0) FakeNccl::network_down = true;
    rank.host.barrier();
    EXPECT_NE(rank.host.engine()->monitor().failure().find("unhandled system error"),
              std::string::npos);
    pending.wait();
  });
  FakeNccl::network_down = false;
  EXPECT_NE(what.find("NCCL failed on rank 0 in allreduce: unhandled system error"),
            std::string::npos)
      << what;
}

/// Returns the error of an exchange over `wire`; empty: none.
std::string error_of_exchange(const DeviceRank& rank, Stream& stream) {
  Array<char> data(rank.device, 64, "test");
  const std::vector<int64_t> bytes(static_cast<size_t>(rank.wire.size()), 8);
  const ExchangeLayout layout = ExchangeLayout::packed(bytes, bytes);
  try {
    rank.wire.start_alltoallv(data.data(), data.data() + 32, layout, &stream).wait(stream);
  } catch (const PeerLost&) {
    return "peer lost";
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

using CallNames = std::vector<std::string>;

TEST(NcclFailure, LaterCallsThrowTheFailureAgainWithoutCallingNccl) {
  FakeNccl::refused_sender = 0;
  const std::string what = failure_of(2, [](const DeviceRank& rank) {
    const std::unique_ptr<Stream> stream = rank.device.make_stream();
    Array<float> data(rank.device, 5000, "test");
    Pending earlier = rank.wire.start_allreduce<float>(data.view(), DType::kFloat32, stream.get());
    const std::string error_text = error_of_exchange(rank, *stream);
    if (rank.host.rank() == 1) return;
    FakeNccl::take_calls();
    EXPECT_THROW(earlier.poll(), Error);
    EXPECT_EQ(error_of_exchange(rank, *stream), error_text);
    EXPECT_THROW(rank.wire.check_alive(), Error);
    EXPECT_EQ(FakeNccl::take_calls(), CallNames{});
    throw run_error("{}", error_text);
  });
  FakeNccl::refused_sender = -1;
  EXPECT_EQ(what, "NCCL failed on rank 0 in alltoallv: unhandled system error");
}

TEST(NcclFailure, TheWatchdogReportsAFailureThatItsThreadDoesNotReport) {
  FakeNccl::refused_sender = 0;
  const std::string what = failure_of(2, [](const DeviceRank& rank) {
    const std::unique_ptr<Stream> stream = rank.device.make_stream();
    const std::string error_text = error_of_exchange(rank, *stream);
    if (rank.host.rank() == 1) return;
    EXPECT_EQ(rank.host.engine()->monitor().failure(), "");
    EXPECT_EQ(rank.host.engine()->monitor().failure(), "");
    EXPECT_EQ(rank.host.engine()->monitor().failure(), error_text);
    throw run_error("{}", error_text);
  });
  FakeNccl::refused_sender = -1;
  EXPECT_EQ(what, "NCCL failed on rank 0 in alltoallv: unhandled system error");
}

TEST(NcclFailure, APeersFailureAbortsThisRanksKernels) {
  const std::string what = failure_of(2, [](const DeviceRank& rank) {
    const std::unique_ptr<Stream> stream = rank.device.make_stream();
    Array<float> data(rank.device, 5000, "test");
    if (rank.host.rank() == 1) throw run_error("rank one is unwell");
    FakeNccl::take_calls();
    EXPECT_EQ(error_of_exchange(rank, *stream), "peer lost");
    const CallNames calls = FakeNccl::take_calls();
    EXPECT_EQ(calls.back(), "abort");
    EXPECT_EQ(error_of_exchange(rank, *stream), "peer lost");
    EXPECT_EQ(FakeNccl::take_calls(), CallNames{});
  });
  EXPECT_EQ(what, "rank one is unwell");
}

TEST(NcclFailure, APeersFailureThatNcclDoesNotReportAbortsThisRanksKernels) {
  const std::shared_ptr<Device> device = make_cuda_device(0);
  std::unique_ptr<Communicator> wires[2];  // rank 1's part of NCCL outlives its failure
  const auto run = [&] {
    run_on_threads(2, [&](Communicator& host) {
      wires[host.rank()] = make_nccl_comm(host, *device);
      if (host.rank() == 1) throw run_error("rank one is unwell");
      const std::unique_ptr<Stream> stream = device->make_stream();
      FakeNccl::take_calls();
      EXPECT_EQ(error_of_exchange({host, *wires[0], *device}, *stream), "peer lost");
      EXPECT_EQ(FakeNccl::take_calls().back(), "abort");
      wires[0].reset();
    });
  };
  EXPECT_THROW(run(), Error);
}

/// Rank 1's part of NCCL is gone before its host tells why. Rank 0 aborts, and waits for the
/// reason.
TEST(NcclFailure, ThatNcclReportsFirstIsThatOfTheRankThatFailed) {
  const std::shared_ptr<Device> device = make_cuda_device(0);
  std::atomic<bool> aborted{false};
  std::string found;
  const auto run = [&] {
    run_on_threads(2, [&](Communicator& host) {
      auto wire = make_nccl_comm(host, *device);
      host.barrier();  // both have started
      if (host.rank() == 1) {
        try {
          const auto own = std::move(wire);
          throw std::runtime_error("ends the part of NCCL");
        } catch (const std::runtime_error&) {
        }
        while (!aborted) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        throw run_error("rank one is unwell");
      }
      const auto kept = wire->before_end([&] { aborted = true; });
      const std::unique_ptr<Stream> stream = device->make_stream();
      found = error_of_exchange({host, *wire, *device}, *stream);
    });
  };
  EXPECT_THROW(run(), Error);
  EXPECT_EQ(found, "peer lost");
}

TEST(NcclSession, ThatCannotStartIsAbortedAndNoLongerWatched) {
  const std::shared_ptr<Device> device = make_cuda_device(0);
  FakeNccl::network_down = true;
  run_on_threads(1, [&](Communicator& host) {
    FakeNccl::take_calls();
    EXPECT_THROW(make_nccl_comm(host, *device), Error);
    EXPECT_EQ(FakeNccl::take_calls().back(), "abort");
    EXPECT_EQ(host.engine()->monitor().failure(), "");
  });
  FakeNccl::network_down = false;
}

TEST(NcclSession, ThatAnExceptionEndsIsAborted) {
  run_nccl(1, [](const DeviceRank& rank) {
    FakeNccl::take_calls();
    try {
      const auto wire = make_nccl_comm(rank.host, rank.device);
      throw std::runtime_error("another matter");
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(FakeNccl::take_calls().back(), "abort");
  });
}

TEST(NcclExchange, OfARankWithItselfNeedsEqualBytes) {
  run_nccl(1, [](const DeviceRank& rank) {
    const std::unique_ptr<Stream> stream = rank.device.make_stream();
    Array<char> data(rank.device, 64, "test");
    EXPECT_THROW(rank.wire.start_alltoallv(data.data(), data.data() + 32,
                                           ExchangeLayout::packed({8}, {16}), stream.get()),
                 std::exception);
  });
}

TEST(NcclThread, ASecondThreadIsRefused) {
  run_nccl(1, [](const DeviceRank& rank) {
    Array<float> data(rank.device, 10, "test");
    std::thread([&] { EXPECT_THROW(rank.wire.start_allreduce<float>(data.view()), Error); }).join();
  });
}

}  // namespace
}  // namespace dlrm::comm
#endif
