// How an NCCL session ends, over the emulator's stand-in for NCCL.
#if defined(DLRM_SIMT)
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/device_comm.h"

#include "comm/nccl/limited_calls.h"
#include "comm/nccl/nccl_session.h"
#include "error_of.h"
#include "kernels/simt/stand_ins/comm/fake_nccl.h"
#include "nccl_ranks.h"
#include "refused_calls.h"

namespace dlrm::comm {
namespace {

using dlrm::test::DeviceRank;
using dlrm::test::run_nccl;

using CallNames = std::vector<std::string>;
const CallNames kEnd = {"finalize", "finalize", "destroy", "destroy"};  // of two lanes
const CallNames kAbort = {"abort", "abort"};

/// The calls of this thread since the last time, without groups.
CallNames take_ends() {
  CallNames calls = FakeNccl::take_calls();
  std::erase_if(calls, [](const std::string& call) { return call.find("group") == 0; });
  return calls;
}

/// A graph that holds an exchange and a sum of the values of all ranks. It is launched once.
class GraphOfCalls {
 public:
  explicit GraphOfCalls(const DeviceRank& rank)
      : stream_(rank.device.make_stream()),
        from_(rank.device, static_cast<size_t>(rank.wire.size()), "test"),
        to_(rank.device, from_.size(), "test") {
    const std::vector<int64_t> bytes(from_.size(), sizeof(float));
    const ExchangeLayout layout = ExchangeLayout::packed(bytes, bytes);
    stream_->begin_capture();
    rank.wire.start_alltoallv(from_.data(), to_.data(), layout, stream_.get()).wait(*stream_);
    rank.wire.start_allreduce<float>(to_.view(), DType::kFloat32, stream_.get()).wait(*stream_);
    graph_ = stream_->end_capture();
    graph_->launch(*stream_);
  }

  void drop() { graph_.reset(); }
  bool dropped() const { return graph_ == nullptr; }

 private:
  const std::unique_ptr<Stream> stream_;
  Array<float> from_, to_;
  std::unique_ptr<Graph> graph_;
};

TEST(NcclEnd, GraphsAreDroppedBeforeCommunicatorsAreFinalized) {
  const std::shared_ptr<Device> device = make_cuda_device(0);
  run_on_threads(2, [&](Communicator& host) {
    auto wire = make_nccl_comm(host, *device);
    GraphOfCalls graph({host, *wire, *device});
    auto duplicate = wire->duplicate();
    const auto kept = duplicate->before_end([&] { graph.drop(); });
    take_ends();
    wire.reset();
    EXPECT_FALSE(graph.dropped());
    duplicate.reset();
    EXPECT_TRUE(graph.dropped());
    EXPECT_EQ(take_ends(), kEnd);
  });
}

TEST(NcclEnd, AnAbortDropsGraphsFirst) {
  const std::string down = "NCCL failed on rank 0 in allreduce: unhandled system error";
  run_nccl(1, [&](const DeviceRank& rank) {
    GraphOfCalls graph(rank);
    const auto kept = rank.wire.before_end([&] { graph.drop(); });
    take_ends();
    FakeNccl::network_down = true;
    EXPECT_EQ(error_of([&] { rank.wire.check_alive(); }), down);
    FakeNccl::network_down = false;
    EXPECT_TRUE(graph.dropped());
    EXPECT_EQ(take_ends(), kAbort);
  });
}

TEST(NcclEnd, GraphsWhoseOwnerIsGoneAreNotDropped) {
  run_on_threads(1, [](Communicator& host) {
    auto wire = make_nccl_comm(host, *make_cuda_device(0));
    bool called = false;
    wire->before_end([&] { called = true; }).reset();
    wire.reset();
    EXPECT_FALSE(called);
  });
}

/// A session whose graph nobody drops ends nonetheless.
TEST(NcclEnd, WaitsForGraphsForALimitedTime) {
  const std::shared_ptr<Device> device = make_cuda_device(0);
  run_on_threads(1, [&](Communicator& host) {
    const std::unique_ptr<Stream> stream = device->make_stream();
    Array<float> data(*device, 1, "test");
    auto session =
        std::make_unique<NcclSession>(host.duplicate(), *device, std::chrono::milliseconds(20));
    stream->begin_capture();
    NcclLane& lane = session->sums();
    session->wait_for(stream.get(), lane);
    session->group("sum", lane, [&](const NcclLibrary& nccl, ncclComm_t comm, cudaStream_t s) {
      session->check(nccl.all_reduce(data.data(), data.data(), 1, ncclFloat32, ncclSum, comm, s));
    });
    const std::unique_ptr<Event> end = device->make_event();
    lane.stream->record(*end);
    stream->wait(*end);
    std::unique_ptr<Graph> graph = stream->end_capture();
    take_ends();
    session.reset();
    CallNames calls = take_ends();
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "abort that waits for graphs"), 1);
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "destroy"), 0);
    graph.reset();
    // The call goes on, and ends now.
    while (std::count(calls.begin(), calls.end(), "abort") < 2) {
      std::this_thread::yield();
      for (const std::string& call : take_ends()) calls.push_back(call);
    }
  });
}

/// Ends the communicator as an error does: NCCL's kernels are aborted.
void abort_by_an_error(std::unique_ptr<Communicator> wire) {
  try {
    const auto own = std::move(wire);
    throw std::runtime_error("ends the part of NCCL");
  } catch (const std::runtime_error&) {
  }
}

TEST(NcclEnd, TheWatchdogWaitsForTheErrorOfTheRankThatFailed) {
  const std::shared_ptr<Device> device = make_cuda_device(0);
  run_on_threads(2, [&](Communicator& host) {
    auto wire = make_nccl_comm(host, *device);
    host.barrier();  // both have started
    if (host.rank() == 1) abort_by_an_error(std::move(wire));
    host.barrier();
    if (host.rank() == 1) return;
    const Monitor& monitor = host.engine()->monitor();
    for (int look = 0; look < 3; ++look) EXPECT_EQ(monitor.failure(), "");
    for (int look = 0; look < 2; ++look) {
      EXPECT_EQ(monitor.failure(),
                "NCCL failed on rank 0 in start: remote process exited or there was a network "
                "error");
    }
    abort_by_an_error(std::move(wire));
    EXPECT_EQ(monitor.failure(), "");
  });
}

TEST(NcclEnvironment, GraphsRegisterNoBuffersUnlessTheUserSaysSo) {
  constexpr const char* kName = "NCCL_GRAPH_REGISTER";
  const auto after_a_session = [&] {
    run_on_threads(1, [](Communicator& host) { make_nccl_comm(host, *make_cuda_device(0)); });
    return std::string(std::getenv(kName));
  };
  ::unsetenv(kName);
  EXPECT_EQ(after_a_session(), "0");
  ::setenv(kName, "1", 1);
  EXPECT_EQ(after_a_session(), "1");
  ::setenv(kName, "0", 1);
}

TEST(NcclEnvironment, RanksWithHostIdsOfTheirOwnMayShareAGpu) {
  const std::shared_ptr<Device> device = make_cuda_device(0);
  const auto chosen = [&] {
    std::string kind;
    ::testing::internal::CaptureStderr();
    run_on_threads(2, [&](Communicator& host) {
      const auto wire = make_device_comm(host, *device);
      if (host.rank() == 0) kind = wire->describe();
    });
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find(": ranks 0 and 1 share GPU ") != said.npos, kind == "staged") << said;
    return kind;
  };
  ::unsetenv("NCCL_HOSTID");
  EXPECT_EQ(chosen(), "staged");
  ::setenv("NCCL_HOSTID", "one of many", 1);
  EXPECT_EQ(chosen(), "nccl 2.28.9");
  ::unsetenv("NCCL_HOSTID");
}

TEST(NcclEnd, CallsAreMadeByTheCallerIfNoThreadIsLeft) {
  const std::string made =
      test::in_process_with(test::kNoThreads, [caller = std::this_thread::get_id()] {
        std::string calls;
        const auto call = [&] {
          calls += caller == std::this_thread::get_id() ? "own " : "other ";
        };
        run_at_most(std::chrono::hours(1), {call, call});
        return calls + "done";
      });
  EXPECT_TRUE(made.empty() || made == "own own done") << made;  // empty: there are no filters
}

}  // namespace
}  // namespace dlrm::comm
#endif
