#include "dlrm/nn/parameters.h"

#include <cmath>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"

namespace dlrm {
namespace {

struct Rank {
  explicit Rank(Communicator& comm) : context{*device, *stream, comm, trace, log} {}
  std::shared_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Stream> stream = device->make_stream();
  Trace trace;
  Log log;
  Context context;
  std::unique_ptr<Ops> ops = make_reference_ops(*device, *stream);
};

TEST(Parameters, InitialWeightsHaveTheRequestedVariance) {
  const auto comm = make_self_comm();
  Rank rank(*comm);
  Parameters p(rank.context, *rank.ops, OptimizerRule::kSgd, DType::kFloat32, DType::kFloat32);
  const int w = p.add("/mlp/top/0/weight", 200, 300, 0.5);
  const int zero = p.add("/cross/0/bias", 10, 0, 0);
  p.allocate();
  p.initialise(1, 0);
  double squares = 0;
  for (int64_t i = 0; i < 60000; ++i) squares += std::pow(p.values(w)[i], 2);
  EXPECT_NEAR(squares / 60000, 0.25, 0.01);
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(p.values(zero)[i], 0);
}

TEST(Parameters, GradientsOfEveryRankAreSummedWhateverTheBuckets) {
  run_on_threads(3, [](Communicator& comm) {
    Rank rank(comm);
    Parameters p(rank.context, *rank.ops, OptimizerRule::kSgd, DType::kFloat32, DType::kFloat32);
    const std::vector<int64_t> rows = {1, 700, 3, 500, 1000};  // several buckets of 256 Ki elements
    std::vector<int> tensors;
    for (const int64_t r : rows) {
      tensors.push_back(p.add("/t" + std::to_string(r), r, 411, 0));
    }
    p.allocate();
    p.initialise(1, 0);
    for (int step = 0; step < 2; ++step) {
      for (size_t i = rows.size(); i-- > 0;) {
        const MatrixView<float> g = p.weight_gradient(tensors[i]);
        for (int64_t k = 0; k < g.rows * g.cols; ++k) {
          g.data[k] = static_cast<float>((k % 97) * (comm.rank() + 1) + step);
        }
        p.gradients_ready_from(tensors[i]);
      }
      p.finish_gradients();
      for (const int t : tensors) {
        const MatrixView<float> g = p.weight_gradient(t);
        for (int64_t k = 0; k < g.rows * g.cols; ++k) {
          ASSERT_EQ(g.data[k], static_cast<float>((k % 97) * 6 + 3 * step));
        }
      }
    }
  });
}

TEST(Parameters, Bf16CopiesFollowTheMasters) {
  const auto comm = make_self_comm();
  Rank rank(*comm);
  Parameters p(rank.context, *rank.ops, OptimizerRule::kSgd, DType::kBFloat16, DType::kFloat32);
  const int w = p.add("/w", 3, 5, 1.0);
  p.allocate();
  p.initialise(1, 0);
  for (int64_t i = 0; i < 15; ++i) p.weight_gradient(w).data[i] = static_cast<float>(i);
  p.gradients_ready_from(w);
  p.finish_gradients();
  OptimizerStep step;
  step.lr = 0.25f;
  p.update(step);
  const auto* copy = static_cast<const BFloat16*>(p.weight(w).data);
  for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(copy[i].bits, BFloat16(p.values(w)[i]).bits);
}

}  // namespace
}  // namespace dlrm
