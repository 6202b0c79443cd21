// The memory that the embeddings of a rank take, compared with what the plan says.
#include <gtest/gtest.h>

#include "training.h"

namespace dlrm::testing {
namespace {

struct PlannedCase {
  const char* plan;
  int ranks;
  RoutingMode mode = RoutingMode::kExact;
  WireConfig wire = {};
  bool weighted = false;  ///< ids of sums have weights
  bool max = false;       ///< sums are maxima instead
};
void PrintTo(const PlannedCase& c, std::ostream* out) { *out << c.plan << c.ranks; }

/// `keeps_sizes`: lists have capacities, as in steps that are launched as graphs.
struct On {
  DeviceKind device = DeviceKind::kCpu;
  bool keeps_sizes = false;
};
void PrintTo(const On& on, std::ostream* out) {
  *out << (on.device == DeviceKind::kCpu ? "cpu" : "gpu") << (on.keeps_sizes ? "_keeps" : "");
}

class PlannedMemory : public ::testing::TestWithParam<std::tuple<PlannedCase, On>> {
 protected:
  PlannedMemory() {
    config_.device = device();
    for (TableConfig& table : options_.tables) {
      for (FeatureConfig& feature : table.features) {
        feature.weights = where().weighted && feature.pooling == Pooling::kSum;
        if (where().max && feature.pooling == Pooling::kSum) feature.pooling = Pooling::kMax;
      }
    }
    config_.model.tables = options_.tables;
    config_.train.global_batch_size = options_.max_global_batch = kBatch;
    config_.train.wire = options_.wire = where().wire;
    config_.train.sparse_optimizer = options_.optimizer;
    config_.routing = options_.routing = {where().mode, 1};
  }
  const PlannedCase& where() const { return std::get<0>(GetParam()); }
  DeviceKind device() const { return std::get<1>(GetParam()).device; }
  bool keeps_sizes() const { return std::get<1>(GetParam()).keeps_sizes; }

  /// Bytes of a rank's device after some batches, without rows and their state.
  double taken(Communicator& comm, const Plan& plan, double held) const {
    Rank rank = device() == DeviceKind::kCpu ? Rank(comm, 1) : Rank(comm, OnGpu());
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options_, plan);
    if (keeps_sizes()) embeddings.keep_sizes();
    const MadeUpBags bags(options_.tables, /*variable=*/false);
    for (int64_t step = 0; step < kSteps; ++step) {
      while (embeddings.in_flight() < 2) {
        route(embeddings, comm, bags, step + embeddings.in_flight(), kBatch);
      }
      train(embeddings, rank.context, step, kBatch, 0.1);
    }
    return static_cast<double>(rank.device->bytes_in_use()) - held;
  }

  static constexpr int64_t kBatch = 2048, kSteps = 4;
  EmbeddingOptions options_ = options_for(
      {table_of("a", 400, 16, {1, 3}, Pooling::kSum), table_of("b", 1100, 32, {2}, Pooling::kMean),
       table_of("c", 1003, 32, {1}, Pooling::kSum)},
      OptimizerRule::kAdagrad);
  RunConfig config_;
};

/// With capacities for lists of any length, the plan is nearest to the truth.
TEST_P(PlannedMemory, IsEnough) {
  const Plan plan = plan_of(where().plan, options_.tables, where().ranks);
  const std::vector<RankMemory> memory = rank_memory(config_, plan);
  run_on_threads(where().ranks, [&](Communicator& comm) {
    const RankMemory& own = memory[static_cast<size_t>(comm.rank())];
    const double planned = own.exchange + own.routing;
    const double bytes = taken(comm, plan, own.tables + own.optimizer_state);
    EXPECT_LE(bytes, 1.06 * planned) << "rank " << comm.rank();
    if (device() == DeviceKind::kCpu || keeps_sizes()) {
      EXPECT_GE(bytes, 0.5 * planned) << "rank " << comm.rank();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Plans, PlannedMemory,
    ::testing::Combine(
        ::testing::Values(PlannedCase{"table", 1}, PlannedCase{"row", 16}, PlannedCase{"grid", 8},
                          PlannedCase{"mixed", 5}, PlannedCase{"row", 4, RoutingMode::kFixed},
                          PlannedCase{"mixed", 4, RoutingMode::kExact, {}, true},
                          PlannedCase{"column", 4, RoutingMode::kExact, {}, false, true},
                          PlannedCase{"data_parallel", 4, RoutingMode::kExact, {}, false, true},
                          PlannedCase{
                              "row", 8, RoutingMode::kExact, {DType::kFloat16, DType::kBFloat16}}),
        ::testing::Values(On{}, On{DeviceKind::kCuda}, On{DeviceKind::kCuda, true})));

}  // namespace
}  // namespace dlrm::testing
