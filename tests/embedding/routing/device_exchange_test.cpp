// What exchanges of ids of devices wait for, as the emulator records it.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/device/stream_recording.h"

#include "embedding/training.h"

namespace dlrm::testing {
namespace {

thread_local int rank_of_thread = -1;

class DeviceExchange : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_is_emulated()) GTEST_SKIP() << "only the emulator records streams";
    rank_of_thread = -1;
  }

  /// Runs `before` and then `work` on 2 ranks. Returns what `work` queues.
  template <class Before, class Work>
  QueuedOperations recorded(int depth, const Before& before, const Work& work) const {
    QueuedOperations queued;
    std::unique_ptr<StreamRecorder> recorder;
    run_on_threads(2, [&](Communicator& comm) {
      rank_of_thread = comm.rank();
      EmbeddingOptions options = options_for(tables_, OptimizerRule::kSgd);
      options.routing = {RoutingMode::kFixed, depth};
      Rank rank(comm, OnGpu{/*nccl=*/true});
      ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan_of("table", tables_, 2));
      before(embeddings, comm);
      rank.stream->synchronize();
      comm.barrier();
      if (comm.rank() == 0) recorder = record_streams([] { return rank_of_thread; });
      comm.barrier();
      work(embeddings, comm);
      comm.barrier();
      if (comm.rank() == 0) queued = recorder->take();
      comm.barrier();
      while (embeddings.in_flight() > 0) embeddings.drop();
      rank.stream->synchronize();
    });
    return queued;
  }

  const Tables tables_ = odd_tables(Pooling::kSum);
  const MadeUpBags bags_{tables_};
};

/// True if `operation` begins after `other` has ended.
bool runs_after(const QueuedOperations& queued, size_t operation, size_t other) {
  std::vector<char> needed(queued.operations.size());
  needed[operation] = 1;
  for (size_t i = operation + 1; i-- > 0;) {
    if (!needed[i]) continue;
    for (const int need : queued.operations[i].needs) needed[static_cast<size_t>(need)] = 1;
  }
  return needed[other] != 0;
}

/// A rank without samples copies no ids of its own to the device, and receives those of the other
/// rank where the ids of the batch before may still be read.
TEST_F(DeviceExchange, WaitsForTheOperationsThatReadTheBatchBefore) {
  const auto pass = [&](ShardedEmbeddings& embeddings, Communicator& comm, int64_t step) {
    route(embeddings, comm, bags_, step, 1);
    embeddings.await_ids();
    embeddings.prepare_ids();
    embeddings.drop();
  };
  const QueuedOperations queued = recorded(
      0,
      [&](ShardedEmbeddings& embeddings, Communicator& comm) {
        for (int64_t t = 0; t < 2; ++t) pass(embeddings, comm, t);
      },
      [&](ShardedEmbeddings& embeddings, Communicator& comm) {
        for (int64_t t = 2; t < 4; ++t) pass(embeddings, comm, t);
      });
  for (const int rank : {0, 1}) {
    std::vector<size_t> exchanges, readers;
    for (size_t i = 0; i < queued.operations.size(); ++i) {
      const QueuedOperation& o = queued.operations[i];
      if (o.label != rank) continue;
      if (o.collective != 0) exchanges.push_back(i);
      if (o.kind == QueuedOperation::Kind::kKernel) readers.push_back(i);
    }
    ASSERT_FALSE(exchanges.empty());
    const size_t last = exchanges.back();
    readers.erase(
        std::remove_if(readers.begin(), readers.end(), [&](size_t i) { return i > last; }),
        readers.end());
    ASSERT_FALSE(readers.empty()) << "rank " << rank;
    EXPECT_TRUE(runs_after(queued, last, readers.back())) << "rank " << rank;
  }
}

}  // namespace
}  // namespace dlrm::testing
