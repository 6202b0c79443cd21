#ifdef DLRM_WITH_CUDA
#include "dlrm/device/cuda/matmul.h"

#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "gpu_fixture.h"

namespace dlrm {
namespace {

using cuda::Product;

struct Case {
  int64_t m, n, k;
};

/// A product of random operands, and its result by definition.
struct Operands {
  Operands(Device& device, Transfer& transfer, const Case& s, bool transpose_a, bool transpose_b)
      : a(device, DType::kFloat32, transpose_a ? s.k : s.m, transpose_a ? s.m : s.k,
          transpose_a ? s.m : s.k),
        b(device, DType::kFloat32, transpose_b ? s.n : s.k, transpose_b ? s.k : s.n,
          transpose_b ? s.k : s.n),
        d(device, DType::kFloat32, s.m, s.n, s.n),
        shape(s),
        ta(transpose_a),
        tb(transpose_b) {
    std::mt19937 generator(5);
    std::normal_distribution<float> normal;
    const auto draw = [&](int64_t, int64_t) { return normal(generator); };
    for (GpuMatrix* matrix : {&a, &b, &d}) {
      matrix->fill(draw);
      matrix->upload(transfer);
    }
  }
  Product product() const {
    return {
        .a = a.matrix(), .b = b.matrix(), .d = d.matrix(), .transpose_a = ta, .transpose_b = tb};
  }
  void expect_product_at(int64_t r, int64_t c) {
    double sum = 0;
    for (int64_t k = 0; k < shape.k; ++k) {
      sum += double{ta ? a.at(k, r) : a.at(r, k)} * (tb ? b.at(c, k) : b.at(k, c));
    }
    EXPECT_NEAR(d.at(r, c), sum, std::abs(sum) * 0x1p-20 + 1e-5);
  }

  GpuMatrix a, b, d;
  Case shape;
  bool ta, tb;
};

class MatmulOnGpu : public OnGpu {
 protected:
  void run(const Product& product) {
    ASSERT_TRUE(matmul->serves(product, *stream));
    // Choosing the algorithm may have written d.
    matmul->run(product, *stream);
    stream->synchronize();
  }

  std::unique_ptr<cuda::Matmul> matmul =
      device ? cuda::make_matmul(*device, {.tf32 = false}) : nullptr;
};

#if defined(DLRM_SIMT)
TEST_F(MatmulOnGpu, ReluOfANanIsZeroAsInCublasLt) {
  Operands o(*device, *transfer, {16, 24, 32}, false, true);
  o.a.set(3, 0, std::nanf(""));
  o.a.upload(*transfer);
  const Array<float> bias = upload(std::vector<float>(24, 1));
  Product product = o.product();
  product.epilogue = cuda::Epilogue::kReluBias;
  product.bias = bias.data();
  run(product);
  o.d.download(*transfer);
  for (int64_t c = 0; c < 24; ++c) EXPECT_EQ(o.d.at(3, c), 0);
}
#endif

/// Products with algorithms chosen by the timing of one day. In the emulator a number sets the
/// result of that timing.
class TimedMatmulOnGpu : public MatmulOnGpu {
 protected:
  void SetUp() override {
    MatmulOnGpu::SetUp();
    if (device) matmul = timed_on_day(1);
  }
  void TearDown() override { unsetenv("DLRM_SIMT_TIMING"); }
  std::unique_ptr<cuda::Matmul> timed_on_day(int day) {
    setenv("DLRM_SIMT_TIMING", std::to_string(day).c_str(), 1);
    return cuda::make_matmul(*device, {.tf32 = false, .timed_candidates = 8});
  }
  /// The bits of products of several shapes.
  std::vector<float> results() {
    std::vector<float> all;
    for (const int64_t k : {333, 334, 335, 400, 500, 600}) {
      Operands o(*device, *transfer, {5, 8, k}, false, true);
      run(o.product());
      o.d.download(*transfer);
      for (int64_t i = 0; i < 5 * 8; ++i) all.push_back(o.d.at(i / 8, i % 8));
    }
    return all;
  }
};

TEST_F(TimedMatmulOnGpu, RestoredAlgorithmsGiveTheSameBits) {
  const std::vector<float> first = results();
  matmul->settle();
  const std::vector<std::byte> choices = matmul->tuned_algorithms();
  matmul = timed_on_day(2);
  matmul->restore(choices);
  EXPECT_EQ(results(), first);
  EXPECT_EQ(matmul->tuned_algorithms(), choices);
#if defined(DLRM_SIMT)
  matmul = timed_on_day(2);
  EXPECT_NE(results(), first);  // otherwise the comparison above proves nothing
#endif
}

TEST_F(TimedMatmulOnGpu, NothingIsTimedOnceAlgorithmsAreChosen) {
  matmul->settle();
  const std::vector<float> first = results();
  matmul = timed_on_day(2);
  matmul->settle();
  EXPECT_EQ(results(), first);
}

TEST_F(TimedMatmulOnGpu, AlgorithmsAreSavedOnlyOnceAllAreChosen) {
  results();
  EXPECT_TRUE(matmul->tuned_algorithms().empty());
}

TEST_F(TimedMatmulOnGpu, TimingLeavesAccumulatedOutputsAlone) {
  Operands o(*device, *transfer, {9, 12, 20}, false, true);
  Product p = o.product();
  p.c = p.d;
  const float before = o.d.at(3, 4);
  ASSERT_TRUE(matmul->serves(p, *stream));
  o.d.download(*transfer);
  EXPECT_EQ(o.d.at(3, 4), before);
}

TEST_F(MatmulOnGpu, ForeignBytesRestoreNoAlgorithms) {
  std::vector<std::byte> noise(1000, std::byte{7});
  matmul->restore(noise);
  matmul->restore({});
  Operands o(*device, *transfer, {4, 4, 4}, false, false);
  run(o.product());
}

TEST_F(MatmulOnGpu, ProductsOfTwoStreamsDoNotDisturbEachOther) {
  const auto side = device->make_stream();
  Operands o(*device, *transfer, {64, 64, 64}, false, false);
  Operands p(*device, *transfer, {64, 64, 64}, true, false);
  ASSERT_TRUE(matmul->serves(o.product(), *stream) && matmul->serves(p.product(), *side));
  matmul->run(o.product(), *stream);
  matmul->run(p.product(), *side);
  stream->synchronize();
  side->synchronize();
  o.d.download(*transfer);
  p.d.download(*transfer);
  o.expect_product_at(63, 1);
  p.expect_product_at(63, 1);
}

}  // namespace
}  // namespace dlrm
#endif
