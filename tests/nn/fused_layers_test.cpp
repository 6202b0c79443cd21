// An MLP on an execution whose layers share passes, as on a GPU, gives the same gradients.
#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/nn/mlp.h"

#include "guarded_device.h"
#include "one_rank.h"
#include "ops/reference/reference_ops.h"

namespace dlrm {
namespace {

/// The reference, which applies the activation of the layer below in a layer's backward, and sums
/// that layer's bias gradient too if the layer has an even number of inputs.
class FusingOps final : public reference::ReferenceOps {
 public:
  bool fuses_layers() const override { return true; }
  using reference::ReferenceOps::run;
  void run(const LinearForward& layer) override {
    if (layer.mask) std::fill_n(static_cast<char*>(layer.mask->bits), layer.mask->stride / 8, '\1');
    ReferenceOps::run(layer);
  }
  void run(const LinearBackward& layer) override {
    Ops::run(layer);
    if (!layer.below) return;
    LayerBelow& below = *layer.below;
    activation_backward(below.act, below.y, below.z, layer.dx);
    below.has_dbias = layer.x.cols % 2 == 0;
    if (!below.has_dbias) return;
    ASSERT_EQ(below.dbias.size(), static_cast<size_t>(layer.dx.cols));
    linear_backward_weight(layer.dx, layer.x, {}, below.dbias);
  }
};

/// The gradients of a network of these layers.
std::vector<float> gradients(Ops& ops, Activation act, const std::vector<int64_t>& sizes) {
  constexpr int64_t kBatch = 3, kInputs = 4;
  OneRank rank{make_guarded_device(64)};
  Parameters p(rank.context, ops, OptimizerRule::kSgd, DType::kFloat32, DType::kFloat32);
  Mlp mlp(rank.context, ops, p, "/mlp/top", kInputs, sizes, act, Activation::kNone, DType::kFloat32,
          kBatch);
  p.allocate();
  p.initialise(3, 0);
  std::vector<float> x, dy(static_cast<size_t>(kBatch * sizes.back())), dx(kBatch * kInputs);
  for (int i = 0; i < kBatch * kInputs; ++i) x.push_back(0.5f * static_cast<float>(i % 5) - 1);
  for (size_t i = 0; i < dy.size(); ++i) dy[i] = 1 / (static_cast<float>(i) - 2.5f);
  const Matrix out = mlp.forward(Matrix(x.data(), DType::kFloat32, kBatch, kInputs), [] {});
  EXPECT_EQ(out.cols, sizes.back());
  mlp.backward(Matrix(dy.data(), DType::kFloat32, kBatch, sizes.back()),
               Matrix(dx.data(), DType::kFloat32, kBatch, kInputs), [] {});
  std::vector<float> all = dx;
  for (size_t i = 0; i < p.tensors().size(); ++i) {
    const View<float> g = {p.weight_gradient(static_cast<int>(i)).data,
                           static_cast<size_t>(p.tensors()[i].size())};
    all.insert(all.end(), g.begin(), g.end());
  }
  return all;
}

TEST(FusedLayers, GiveTheGradientsOfLayersAlone) {
  for (const Activation act : {Activation::kRelu, Activation::kGelu, Activation::kTanh}) {
    for (const std::vector<int64_t>& sizes :
         {std::vector<int64_t>{1}, {6, 1}, {8, 5, 6, 3}, {7, 1, 4, 2}}) {
      FusingOps fusing;
      reference::ReferenceOps alone;
      EXPECT_EQ(gradients(fusing, act, sizes), gradients(alone, act, sizes));
    }
  }
}

}  // namespace
}  // namespace dlrm
