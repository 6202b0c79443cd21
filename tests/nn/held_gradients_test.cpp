// Gradients of weights that several ranks hold back: those of the layers before the first bucket.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/nn/parameters.h"

#include "guarded_device.h"
#include "ops/reference/reference_ops.h"

namespace dlrm {
namespace {

/// The reference with a second stream for gradients.
class TwoStreams final : public reference::ReferenceOps {
 public:
  explicit TwoStreams(Device& device) : side_(device.make_stream()) {}
  Stream* gradient_stream() override { return side_.get(); }
  using reference::ReferenceOps::run;
  void run(const LinearBackward& layer) override {
    EXPECT_TRUE(layer.deferred);
    Ops::run(layer);
  }

 private:
  std::unique_ptr<Stream> side_;
};

/// Two layers, of which the gradients of the second fill the first bucket.
class HeldLayers {
 public:
  static constexpr int64_t kJoined = 7, kInputs = 5, kLarge = 600;

  /// `outputs`: of the first layer.
  HeldLayers(Communicator& comm, int64_t outputs)
      : device_(make_guarded_device(64)),
        stream_(device_->make_stream()),
        context_{*device_, *stream_, comm, trace_, log_},
        ops(*device_),
        p(context_, ops, OptimizerRule::kSgd, DType::kFloat32, DType::kFloat32),
        first_(p.add("/0/weight", outputs, kInputs, 0)),
        first_bias_(p.add("/0/bias", outputs, 0, 0)),
        second_(p.add("/1/weight", kLarge, kLarge, 0)),
        second_bias_(p.add("/1/bias", kLarge, 0, 0)),
        outputs_(outputs) {
    p.allocate(kJoined);
    p.initialise(1, 0);
  }
  /// Both layers' backward for two samples whose numbers are all `value`.
  void backward(float value) {
    values_.assign(3, std::vector<float>(2 * kLarge, value));
    layer(kLarge, kLarge, second_, second_bias_, true);
    layer(kInputs, outputs_, first_, first_bias_, false);
  }
  float first_gradient() const { return p.weight_gradient(first_).data[outputs_ * kInputs - 1]; }
  float first_bias_gradient() const { return p.bias_gradient(first_bias_)[0]; }
  float second_gradient() const { return p.weight_gradient(second_).data[kLarge * kLarge - 1]; }

 private:
  void layer(int64_t inputs, int64_t outputs, int weight, int bias, bool with_dx) {
    const auto of = [&](int i, int64_t columns) {
      return Matrix(values_[static_cast<size_t>(i)].data(), DType::kFloat32, 2, columns);
    };
    LinearBackward l;
    l.dy = of(0, outputs), l.x = of(1, inputs);
    if (with_dx) l.dx = of(2, inputs);
    p.linear_backward(l, weight, bias);
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Trace trace_;
  Log log_;
  Context context_;

 public:
  TwoStreams ops;
  Parameters p;

 private:
  int first_, first_bias_, second_, second_bias_;
  int64_t outputs_;
  std::vector<std::vector<float>> values_;
};

TEST(HeldGradients, AreComputedWhenTheyAreQueuedAndSummedWithWhatJoinsThem) {
  run_on_threads(2, [](Communicator& comm) {
    HeldLayers of(comm, 3);
    Parameters& p = of.p;
    ASSERT_EQ(p.joined().size(), static_cast<size_t>(HeldLayers::kJoined));
    for (int step = 1; step <= 3; ++step) {
      const auto value = static_cast<float>(step + comm.rank());
      const float square = 2 * value * value;  // of two samples
      const auto s = static_cast<float>(step);
      const float squares = 2 * s * s + 2 * (s + 1) * (s + 1);
      of.backward(value);
      p.finish_flag();
      EXPECT_EQ(of.second_gradient(), squares);
      p.queue_held_gradients();
      EXPECT_EQ(of.first_gradient(), square);
      EXPECT_EQ(of.first_bias_gradient(), 2 * value);
      std::fill(p.joined().begin(), p.joined().end(), value);
      p.sum_held_gradients();
      p.finish_joined();
      EXPECT_EQ(p.joined()[0], 2 * s + 1);
      EXPECT_EQ(p.joined()[HeldLayers::kJoined - 1], 2 * s + 1);
      p.finish_gradients();
      EXPECT_EQ(of.first_gradient(), squares);
      EXPECT_EQ(of.first_bias_gradient(), 2 * (2 * s + 1));
    }
  });
}

TEST(HeldGradients, OfALayerOfOneOutputAreOnlySummedLater) {
  run_on_threads(2, [](Communicator& comm) {
    HeldLayers of(comm, 1);
    for (int step = 0; step < 2; ++step) {
      of.backward(2);
      of.p.queue_held_gradients();
      std::fill(of.p.joined().begin(), of.p.joined().end(), 3.0f);
      of.p.sum_held_gradients();
      of.p.finish_gradients();
      EXPECT_EQ(of.p.joined()[0], 6);
      EXPECT_EQ(of.first_gradient(), 16);
      EXPECT_EQ(of.second_gradient(), 16);
    }
  });
}

}  // namespace
}  // namespace dlrm
