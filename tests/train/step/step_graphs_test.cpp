// Recordings of steps when NCCL fails, over the emulator's stand-in for NCCL.
#if defined(DLRM_SIMT)
#include "train/step/step_graphs.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "dlrm/comm/thread_comm.h"

#include "kernels/simt/stand_ins/comm/fake_nccl.h"
#include "train/test_rank.h"

namespace dlrm {
namespace {

constexpr const char* kFailure = "NCCL failed on rank 0 in allreduce: unhandled system error";

/// An abort that waits for graphs says so.
const auto kNothingWaits =
    ::testing::AllOf(::testing::Contains("abort"), ::testing::Each(std::string("abort")));

/// Calls body(rank, graphs, recording, sum) for one rank over NCCL. `sum` queues a sum over ranks.
template <class Body>
void with_recording(const Body& body) {
  ::setenv("NCCL_HOSTID", "of this rank", 1);
  run_on_threads(1, [&](Communicator& comm) {
    RunConfig config;
    config.device = DeviceKind::kCuda;
    config.comm = CommKind::kNccl;
    TestRank rank(comm, config);
    Context& context = rank.context;
    StepGraphs graphs(context, 4);
    Array<float> data(context.device, 8, "test");
    const auto sum = [&] {
      context.device_comm()
          .start_allreduce<float>(data.view(), DType::kFloat32, &context.stream)
          .wait(context.stream);
    };
    StepGraphs::Key key = {1};
    body(context, graphs, graphs.find_or_add(key), sum);
  });
}

/// NCCL fails now. The error of the next call.
std::string fail(Context& context) {
  FakeNccl::take_calls();
  FakeNccl::network_down = true;
  const std::string error = error_of([&] { context.device_comm().check_alive(); });
  FakeNccl::network_down = false;
  return error;
}

TEST(StepGraphsOverNccl, AFailureDuringARecordingEndsIt) {
  with_recording([](Context& context, StepGraphs& graphs, auto& recording, const auto& sum) {
    graphs.run(recording, StepHalf::kForward, sum);
    recording.runs = 1;
    const std::string error = error_of([&] {
      graphs.run(recording, StepHalf::kForward, [&] {
        sum();
        throw run_error("{}", fail(context));
      });
    });
    EXPECT_EQ(error, kFailure);
    EXPECT_THAT(FakeNccl::take_calls(), kNothingWaits);
    EXPECT_FALSE(context.stream.capturing());
  });
}

}  // namespace
}  // namespace dlrm
#endif
