#ifdef DLRM_WITH_CUDA
#include "dlrm/device/cuda/activation.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "gpu_fixture.h"

namespace dlrm {
namespace {

double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

double value(Activation act, double z) {
  if (act == Activation::kTanh) return std::tanh(z);
  return act == Activation::kSilu ? z * sigmoid(z) : sigmoid(z);
}

/// A difference quotient, which shares no formula with the tested code.
double slope(Activation act, double z) {
  return (value(act, z + 1e-5) - value(act, z - 1e-5)) / 2e-5;
}

class ActivationOnGpu : public OnGpu {
 protected:
  static constexpr Activation kAll[] = {Activation::kSigmoid, Activation::kTanh, Activation::kSilu};
  std::unique_ptr<cuda::Activations> activations =
      device ? cuda::make_activations(*device) : nullptr;
};

TEST_F(ActivationOnGpu, ForwardAndBackwardFollowTheFunctions) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    const double step = type == DType::kFloat32 ? 1e-5 : 0.02;
    for (const Activation act : kAll) {
      GpuMatrix z(*device, type, 9, 21, 24), y(*device, type, 9, 21, 24),
          dy(*device, type, 9, 21, 23);
      z.fill([](int64_t r, int64_t c) { return static_cast<float>(r * 21 + c - 94) / 16; });
      dy.fill([](int64_t r, int64_t c) { return static_cast<float>(r - c) / 8; });
      for (GpuMatrix* m : {&z, &y, &dy}) m->upload(*transfer);
      if (!activations->forward(act, z.matrix(), y.matrix(), *stream)) continue;
      const bool backward = activations->backward(act, y.matrix(), dy.matrix(), *stream);
      y.download(*transfer);
      dy.download(*transfer);
      for (int64_t r = 0; r < 9; ++r) {
        for (int64_t c = 0; c < 21; ++c) {
          EXPECT_NEAR(y.at(r, c), value(act, z.at(r, c)), step);
          if (!backward) continue;
          const double given = static_cast<double>(r - c) / 8;
          EXPECT_NEAR(dy.at(r, c), given * slope(act, z.at(r, c)), step * 3) << z.at(r, c);
        }
      }
    }
  }
}

TEST_F(ActivationOnGpu, ANanStaysANan) {
  for (const Activation act : kAll) {
    GpuMatrix z(*device, DType::kFloat32, 1, 4, 4);
    z.fill([](int64_t, int64_t c) { return c == 2 ? std::nanf("") : 1.0f; });
    z.upload(*transfer);
    if (!activations->forward(act, z.matrix(), z.matrix(), *stream)) continue;
    z.download(*transfer);
    EXPECT_TRUE(std::isnan(z.at(0, 2)));
    EXPECT_FALSE(std::isnan(z.at(0, 1)));
  }
}

}  // namespace
}  // namespace dlrm
#endif
