#include <algorithm>
#include <cmath>

#include "cpu/kernels.h"
#include "fixture.h"

namespace dlrm {
namespace {

using KernelScratch = EveryExecution;

/// Kernels of neighbouring threads have neighbouring scratch.
TEST_P(KernelScratch, OfDotIsLargeEnough) {
  if (GetParam().gpu()) GTEST_SKIP() << "kernels of a CPU";
  const cpu::Kernels& kernels = cpu::choose_kernels(GetParam().isa);
  constexpr int64_t kBehind = 4096;
  constexpr float kUntouched = -7;
  for (const int64_t width : {1, 3, 8, 16, 17, 64, 130}) {
    for (const int64_t features : {1, 2, 7, 16, 26, 33}) {
      const int64_t outputs = width + (features + 1) * features / 2;
      Cells x = Cells::random(3, width, 1), e = Cells::random(3, features * width, 2);
      Cells z(3, outputs), dx(3, width), de(3, features * width);
      const int64_t size = kernels.dot_scratch(1 + features, width);
      std::vector<float> scratch(static_cast<size_t>(size + kBehind), kUntouched);
      const auto is_exceeded = [&] {
        return std::any_of(scratch.begin() + size, scratch.end(),
                           [](float value) { return value != kUntouched; });
      };
      kernels.dot_forward({x.matrix(), e.matrix(), z.matrix()}, 0, 3, scratch.data());
      EXPECT_FALSE(is_exceeded()) << "forward of " << features << " features of width " << width;
      kernels.dot_backward({x.matrix(), e.matrix(), z.matrix(), dx.matrix(), de.matrix()}, 0, 3,
                           scratch.data());
      EXPECT_FALSE(is_exceeded()) << "backward of " << features << " features of width " << width;
    }
  }
}

/// Scratch ends at a page that cannot be accessed.
TEST_P(KernelScratch, OfLayersIsNotExceeded) {
  if (GetParam().gpu()) GTEST_SKIP() << "kernels of a CPU";
  const cpu::Kernels& kernels = cpu::choose_kernels(GetParam().isa);
  const auto guarded = make_guarded_device(64);
  for (const int64_t in : {1, 7, 100, 340, 500, 600, 700, 820, 1500}) {
    for (const int64_t batch : {1, 5, 6, 7, 11, 13}) {
      const int64_t out = 1 + in % 6;
      Cells x = Cells::random(batch, in, 1), w = Cells::random(out, in, 2), y(batch, out);
      Cells dy = Cells::random(batch, out, 3), dx(batch, in), dw(out, in), dbias(1, out);
      for (int64_t r = 0; r < batch; ++r) std::fill_n(&dx.floats()(r, 0), in, 0.0f);
      const auto scratch = [&](int64_t size) {
        return Array<float>(*guarded, static_cast<size_t>(size), "scratch");
      };
      Array<float> forward = scratch(kernels.layer_forward_scratch(in));
      kernels.layer_forward({x.floats(), w.floats(), nullptr, Activation::kNone, y.floats()}, 0,
                            out, forward.data());
      for (int64_t s = 0; s < batch; ++s) {
        for (int64_t o = 0; o < out; ++o) {
          double sum = 0;
          for (int64_t i = 0; i < in; ++i) sum += double{x.at(s, i)} * w.at(o, i);
          EXPECT_NEAR(y.at(s, o), sum, 1e-4 * std::sqrt(in)) << in << " inputs of " << batch;
        }
      }
      Array<float> backward = scratch(kernels.layer_backward_scratch(batch, out));
      cpu::LayerBackward layer{x.floats(), y.floats(), dy.floats(), w.floats()};
      layer.dw = &dw.floats()(0, 0);
      layer.dbias = &dbias.floats()(0, 0);
      kernels.layer_backward(layer, 0, out, dx.floats(), backward.data());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, KernelScratch, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
