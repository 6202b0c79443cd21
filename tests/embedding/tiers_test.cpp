#include <gtest/gtest.h>

#include "training.h"

namespace dlrm::testing {
namespace {

/// Moves every other shard and data-parallel table to the host's memory.
Plan half_on_host(Plan plan) {
  for (size_t i = 0; i < plan.shards.size(); i += 2) plan.shards[i].tier = MemoryTier::kHost;
  for (size_t i = 0; i < plan.data_parallel.size(); i += 2) {
    plan.host_replicas.push_back(plan.data_parallel[i]);
  }
  return plan;
}

TEST(Tiers, TheTierOfAShardChangesNoBit) {
  for (const OptimizerRule optimizer : {OptimizerRule::kAdagrad, OptimizerRule::kRowwiseAdagrad}) {
    const EmbeddingOptions options = options_for(odd_tables(Pooling::kSum), optimizer);
    for (const char* kind : {"mixed", "ragged", "two_columns_a_rank", "data_parallel"}) {
      const Plan plan = plan_of(kind, options.tables, 3);
      const auto trained = [&](const Plan& p) {
        return train_all(p, options, MadeUpBags(options.tables), {13, 2, 16});
      };
      EXPECT_EQ(trained(half_on_host(plan)), trained(plan)) << kind;
    }
  }
}

/// A CPU device that counts the allocations of each memory.
class CountingDevice final : public Device {
 public:
  CountingDevice() : Device(DeviceCapabilities{}) {}
  void* allocate(size_t bytes, const char* what) override {
    if (is_of_rows(what)) rows_on_device += bytes;
    return cpu_->allocate(bytes, what);
  }
  void deallocate(void* p, size_t bytes) noexcept override { cpu_->deallocate(p, bytes); }
  void* allocate_host(size_t bytes, const char* what) override {
    if (is_of_rows(what)) rows_on_host += bytes;
    return cpu_->allocate_host(bytes, what);
  }
  void deallocate_host(void* p, size_t bytes) noexcept override { cpu_->deallocate_host(p, bytes); }
  void copy(void* to, const void* from, size_t bytes, Stream& stream) override {
    cpu_->copy(to, from, bytes, stream);
  }
  std::unique_ptr<Stream> make_stream() override { return cpu_->make_stream(); }
  std::unique_ptr<Event> make_event() override { return cpu_->make_event(); }
  std::string describe() const override { return cpu_->describe(); }
  size_t bytes_in_use() const override { return cpu_->bytes_in_use(); }
  size_t peak_bytes() const override { return cpu_->peak_bytes(); }

  size_t rows_on_device = 0, rows_on_host = 0;

 private:
  static bool is_of_rows(const std::string& what) {
    return what == "embedding rows" || what == "embedding optimizer state";
  }
  std::shared_ptr<Device> cpu_ = make_cpu_device();
};

TEST(Tiers, TheTierOfAShardChoosesItsMemory) {
  const Tables tables = {table_of("plain", 8, 16, {1}, Pooling::kSum),
                         table_of("copied", 4, 16, {1}, Pooling::kSum)};
  const EmbeddingOptions options = options_for(tables, OptimizerRule::kAdagrad);
  Plan plan;
  plan.shards = {{0, {0, 5}, {0, 16}, 0}, {0, {5, 8}, {0, 16}, 0, MemoryTier::kHost}};
  plan.data_parallel = {1};
  for (const bool replica_on_host : {false, true}) {
    if (replica_on_host) plan.host_replicas = {1};
    run_on_threads(1, [&](Communicator& comm) {
      Rank rank(comm);
      CountingDevice device;
      Context context{device, *rank.stream, comm, rank.trace, rank.log};
      const ShardedEmbeddings embeddings(context, *rank.ops, options, plan);
      const size_t row = 2 * 64, replica = 4 * row;
      EXPECT_EQ(device.rows_on_device, 5 * row + (replica_on_host ? 0 : replica));
      EXPECT_EQ(device.rows_on_host, 3 * row + (replica_on_host ? replica : 0));
    });
  }
}

}  // namespace
}  // namespace dlrm::testing
