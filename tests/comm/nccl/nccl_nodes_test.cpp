// Sums over NCCL whose ranks are on several nodes, over the emulator's stand-in for NCCL.
#if defined(DLRM_SIMT)
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/core/dtype.h"
#include "dlrm/device/transfer.h"

#include "comm/world/node_layout.h"
#include "kernels/simt/stand_ins/comm/fake_nccl.h"
#include "nccl_ranks.h"

namespace dlrm::comm {
namespace {

/// Ranks as threads that say they are on several nodes.
class OnNodes final : public Communicator {
 public:
  OnNodes(std::unique_ptr<Communicator> inner, std::vector<int> nodes)
      : Communicator(inner->engine()),
        inner_(std::move(inner)),
        nodes_(std::move(nodes)),
        layout_(View<const int>(nodes_), inner_->rank()) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<OnNodes>(inner_->duplicate(), nodes_);
  }
  Pending start_exchange(Exchange exchange) override {
    return inner_->start_exchange(std::move(exchange));
  }
  const NodeLayout* node_layout() const override { return &layout_; }

 private:
  std::unique_ptr<Communicator> inner_;
  const std::vector<int> nodes_;
  const NodeLayout layout_;
};

/// Two ranks in the middle have large values that cancel out. The sum of the others depends on the
/// order in which all are added.
float value_of(int rank, int ranks, size_t i) {
  constexpr float kLarge = 0x1p26f;
  if (rank == ranks / 2 - 1) return kLarge;
  if (rank == ranks / 2) return -kLarge;
  return static_cast<float>((7919 * i + 104729 * static_cast<size_t>(rank)) % 10007 + 1) / 10007.0f;
}

float rounded(float value) { return static_cast<float>(BFloat16(value)); }

/// Each node's sum in rank order, and the sums in the order of nodes. Ranks of a node need not
/// follow one another.
float sum_by_nodes(const NodeLayout& nodes, size_t i) {
  float all = 0;
  for (int m = 0; m < nodes.nodes(); ++m) {
    float sum = 0;
    for (const int q : nodes.ranks_of(m)) sum += rounded(value_of(q, nodes.ranks(), i));
    all = m == 0 ? sum : all + sum;
  }
  return rounded(all);
}

float sum_by_ranks(const NodeLayout& nodes, size_t i) {
  float all = 0;
  for (int q = 0; q < nodes.ranks(); ++q) all += rounded(value_of(q, nodes.ranks(), i));
  return rounded(all);
}

struct NodeSum {
  std::vector<float> values;  ///< of rank 0; the same on all ranks
  double foreign_bytes = 0;   ///< sent from node to node
};

/// A sum of `count` values over ranks on `nodes`, with a bf16 wire.
NodeSum sum_on_nodes(const std::vector<int>& nodes, size_t count) {
  NodeSum result;
  run_on_threads(static_cast<int>(nodes.size()), [&](Communicator& threads) {
    OnNodes host(threads.duplicate(), nodes);
    const std::shared_ptr<Device> device = make_cuda_device(0);
    const auto wire = make_nccl_comm(host, *device);
    const std::unique_ptr<Stream> stream = device->make_stream();
    Transfer transfer(*device, *stream);
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = value_of(host.rank(), host.size(), i);
    Array<float> data(*device, count, "test");
    transfer.to_device(data.data(), values.data(), count * sizeof(float));
    FakeNccl::take_sent();
    wire->start_allreduce<float>(data.view(), DType::kBFloat16, stream.get()).wait(*stream);
    transfer.to_host(values.data(), data.data(), count * sizeof(float));
    double foreign = 0;
    for (const auto& [peer, bytes] : FakeNccl::take_sent()) {
      const auto q = static_cast<size_t>(peer), own = static_cast<size_t>(host.rank());
      if (nodes[q] != nodes[own]) foreign += static_cast<double>(bytes);
    }
    threads.allreduce<double>({&foreign, 1});
    std::vector<float> first = values;
    threads.broadcast(first.data(), static_cast<int64_t>(count * sizeof(float)), 0);
    EXPECT_EQ(values, first) << "rank " << host.rank();
    if (host.rank() == 0) result = {values, foreign};
  });
  return result;
}

class NcclNodes : public testing::TestWithParam<std::vector<int>> {};

TEST_P(NcclNodes, ABf16SumAddsWithinNodesFirst) {
  const NodeLayout nodes(View<const int>(GetParam()), 0);
  for (const size_t count : {1, 5, 1000, 12345}) {
    const NodeSum sum = sum_on_nodes(GetParam(), count);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(sum.values[i], sum_by_nodes(nodes, i)) << i << " of " << count;
    }
  }
}

/// As a sum of each node in fp32 and the sum of all in bf16, to each of the other nodes.
TEST_P(NcclNodes, ABf16SumCrossesNodesOncePerNode) {
  const NodeLayout nodes(View<const int>(GetParam()), 0);
  constexpr size_t kCount = 12000;  // divisible by all numbers of pieces
  EXPECT_EQ(sum_on_nodes(GetParam(), kCount).foreign_bytes,
            static_cast<double>(kCount * (4 + 2)) * (nodes.nodes() - 1));
}

INSTANTIATE_TEST_SUITE_P(Layouts, NcclNodes,
                         testing::Values(std::vector{0, 0, 1, 1}, std::vector{0, 1, 0, 1},
                                         std::vector{0, 0, 0, 1, 1, 1},
                                         std::vector{0, 0, 1, 1, 2, 2}));

TEST(NcclNodesOfOtherSizes, AddInRankOrder) {
  for (const std::vector<int>& names : {std::vector{0, 0, 1, 1, 1}, std::vector{0, 0, 1},
                                        std::vector{0, 1, 2}, std::vector{0, 0, 0}}) {
    const NodeLayout nodes(View<const int>(names), 0);
    const NodeSum sum = sum_on_nodes(names, 1000);
    for (size_t i = 0; i < 1000; ++i) ASSERT_EQ(sum.values[i], sum_by_ranks(nodes, i)) << i;
  }
}

TEST(NcclNodesOfOneRank, SendRoundedValuesOnly) {
  EXPECT_EQ(sum_on_nodes({0, 1, 2}, 1200).foreign_bytes, 1200 * (2 + 2) * 2);
}

}  // namespace
}  // namespace dlrm::comm
#endif
