// What the passes of cross layers between the products move: the operands that each operation reads
// and writes. docs/benchmarks/gpu.md counts with these numbers.
#include <map>
#include <numeric>
#include <string>
#include <type_traits>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/nn/interaction.h"

#include "noted_ops.h"

namespace dlrm {
namespace {

/// The reference, which notes the bytes of the matrices of each operation.
class Counting final : public NotedOps<Counting> {
 public:
  using NotedOps::NotedOps;

  std::map<std::string, int64_t> bytes;

 private:
  friend NotedOps;

  template <class Operation>
  void note(Operation o) {
    EachOperand all{[&](const char*, Role role, const auto& operand, const Tolerance&) {
      if constexpr (std::is_same_v<std::decay_t<decltype(operand)>, Matrix>) {
        const int64_t size =
            operand.rows * operand.cols * static_cast<int64_t>(size_of(operand.type));
        bytes[Operation::kName] += role == Role::kInOut ? 2 * size : size;
      }
    }};
    o.operands(all);
  }
};

/// The bytes of the passes of a forward and backward on `batch` samples of `dense` columns of X and
/// 11 of E, which lookups write and updates read in place.
std::map<std::string, int64_t> moved(int64_t layers, DType compute, int64_t batch, int64_t dense) {
  const std::shared_ptr<Device> device = make_cpu_device();
  const std::unique_ptr<Stream> stream = device->make_stream();
  const std::unique_ptr<Communicator> comm = make_self_comm();
  Trace trace;
  Log log;
  Context context{*device, *stream, *comm, trace, log};
  Counting ops(make_reference_ops(*device, *stream));
  Parameters parameters(context, ops, OptimizerRule::kSgd, compute, DType::kFloat32);
  const auto made = make_interaction(CrossConfig{layers, 4},
                                     {context, ops, parameters, compute, batch, {dense, 11, 1}});
  parameters.allocate();
  parameters.initialise(3, 0);
  const auto size = static_cast<int64_t>(size_of(compute));
  const Buffer x(*device, static_cast<size_t>(batch * dense * size), "x"),
      dz(*device, static_cast<size_t>(batch * (dense + 11) * size), "dz");
  const Matrix in(x.data(), compute, batch, dense), gradient(dz.data(), compute, batch, dense + 11);
  const Matrix de = made->place_of_gradients(gradient);
  ops.bytes.clear();
  made->forward(in, made->place_of_embeddings(), [] {});
  made->backward(gradient, dense > 0 ? in : Matrix(), de, [] {});
  for (const char* product : {"linear_forward", "linear_backward"}) ops.bytes.erase(product);
  return ops.bytes;
}

TEST(BytesOfCrossLayers, BetweenTheProductsAreEightElementsALayer) {
  for (const DType compute : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t layers : {1, 2, 3, 5}) {
      for (const int64_t dense : {0, 5}) {
        constexpr int64_t kBatch = 6;
        const auto size = static_cast<int64_t>(size_of(compute));
        const int64_t element = kBatch * (dense + 11) * size;
        auto bytes = moved(layers, compute, kBatch, dense);
        bytes.erase("convert");  // X and its gradient
        const int64_t all = std::accumulate(bytes.begin(), bytes.end(), int64_t{0},
                                            [](int64_t n, const auto& b) { return n + b.second; });
        EXPECT_EQ(all, 8 * layers * element);
      }
    }
  }
}

}  // namespace
}  // namespace dlrm
