#include "dlrm/device/cuda/activation.h"

#include <cmath>

#include "dlrm/device/cuda/runtime.h"

#include "cuda/stored.h"
#include "simt/simt.h"

namespace dlrm::cuda {
namespace {

double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

double value(Activation act, double z) {
  switch (act) {
    case Activation::kSigmoid:
      return sigmoid(z);
    case Activation::kTanh:
      return std::tanh(z);
    case Activation::kSilu:
      return z * sigmoid(z);
    case Activation::kNone:
    case Activation::kRelu:
    case Activation::kGelu:
      break;
  }
  return z;
}

double slope(Activation act, double y) {
  return act == Activation::kSigmoid ? y * (1 - y) : 1 - y * y;
}

class LoopActivations final : public Activations {
 public:
  bool forward(Activation act, Matrix z, Matrix y, Stream& stream) override {
    if (!in_library(act)) return false;
    const auto work = [=] {
      for (int64_t r = 0; r < y.rows; ++r) {
        for (int64_t c = 0; c < y.cols; ++c) {
          const double in = load(z.data, z.type, r * z.stride + c);
          store(y.data, y.type, r * y.stride + c, static_cast<float>(value(act, in)));
        }
      }
    };
    simt::stream_operation(native(stream), work, "activation forward");
    return true;
  }

  bool backward(Activation act, Matrix y, Matrix dy, Stream& stream) override {
    if (!in_library(act) || needs_input(act)) return false;
    const auto work = [=] {
      for (int64_t r = 0; r < dy.rows; ++r) {
        for (int64_t c = 0; c < dy.cols; ++c) {
          const double out = load(y.data, y.type, r * y.stride + c);
          const int64_t at = r * dy.stride + c;
          const double gradient = load(dy.data, dy.type, at);
          store(dy.data, dy.type, at, static_cast<float>(gradient * slope(act, out)));
        }
      }
    };
    simt::stream_operation(native(stream), work, "activation backward");
    return true;
  }
};

}  // namespace

std::unique_ptr<Activations> make_activations(Device&) {
  return std::make_unique<LoopActivations>();
}

}  // namespace dlrm::cuda
