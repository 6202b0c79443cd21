#ifdef DLRM_WITH_CUDA
#include "dlrm/device/cuda/matmul.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "gpu_fixture.h"

namespace dlrm {
namespace {

using cuda::Epilogue;
using cuda::Product;

struct Case {
  int64_t m, n, k;
};
const Case kCases[] = {{1, 1, 1},    {8, 16, 24},   {7, 5, 3},
                       {33, 9, 130}, {300, 17, 13}, {3, 270, 300}};

/// A product with its operands, and its result by definition.
struct Operands {
  Operands(Device& device, Transfer& transfer, const Case& s, DType in, DType out, bool transpose_a,
           bool transpose_b, int64_t spare = 0)
      : a(device, in, transpose_a ? s.k : s.m, transpose_a ? s.m : s.k,
          (transpose_a ? s.m : s.k) + spare),
        b(device, in, transpose_b ? s.n : s.k, transpose_b ? s.k : s.n,
          (transpose_b ? s.k : s.n) + spare),
        d(device, out, s.m, s.n, s.n + spare),
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
  double left(int64_t r, int64_t k) { return ta ? a.at(k, r) : a.at(r, k); }
  double right(int64_t k, int64_t c) { return tb ? b.at(c, k) : b.at(k, c); }
  double expected(int64_t r, int64_t c) {
    double sum = 0;
    for (int64_t k = 0; k < shape.k; ++k) sum += left(r, k) * right(k, c);
    return sum;
  }

  GpuMatrix a, b, d;
  Case shape;
  bool ta, tb;
};

bool near(double got, double want, DType type, double scale = 1) {
  const double step = type == DType::kFloat32 ? 0x1p-20 : 0x1p-8;
  return std::abs(got - want) <= std::abs(want) * step + 1e-5 * scale;
}

class MatmulOnGpu : public OnGpu {
 protected:
  void run(const Product& product) {
    ASSERT_TRUE(matmul->serves(product, *stream));
    // Choosing the algorithm may have written d.
    matmul->run(product, *stream);
    stream->synchronize();
  }
  Product with_bias(Operands& o, Epilogue epilogue, const Array<float>& bias) {
    Product p = o.product();
    p.epilogue = epilogue;
    p.bias = bias.data();
    return p;
  }

  std::unique_ptr<cuda::Matmul> matmul =
      device ? cuda::make_matmul(*device, {.tf32 = false}) : nullptr;
};

TEST_F(MatmulOnGpu, EveryShapeTypeTransposeAndStrideIsMultiplied) {
  for (const Case& s : kCases) {
    for (const auto& [in, out] : {std::pair{DType::kFloat32, DType::kFloat32},
                                  std::pair{DType::kBFloat16, DType::kBFloat16},
                                  std::pair{DType::kBFloat16, DType::kFloat32}}) {
      for (int form = 0; form < 4; ++form) {
        Operands o(*device, *transfer, s, in, out, form & 1, form & 2, form == 3 ? 5 : 0);
        if (s.k == 1 && !matmul->serves(o.product(), *stream)) continue;
        run(o.product());
        o.d.download(*transfer);
        for (int64_t r = 0; r < s.m; ++r) {
          for (int64_t c = 0; c < s.n; ++c) {
            ASSERT_TRUE(near(o.d.at(r, c), o.expected(r, c), out, 4))
                << s.m << " " << s.n << " " << s.k;
          }
        }
      }
    }
  }
}

TEST_F(MatmulOnGpu, AProductIsAccumulated) {
  Operands o(*device, *transfer, {9, 12, 20}, DType::kFloat32, DType::kFloat32, false, true);
  Product p = o.product();
  p.c = p.d;
  std::vector<float> before;
  for (int64_t i = 0; i < 9 * 12; ++i) before.push_back(o.d.at(i / 12, i % 12));
  run(p);
  o.d.download(*transfer);
  for (int64_t i = 0; i < 9 * 12; ++i) {
    const double want = o.expected(i / 12, i % 12) + before[static_cast<size_t>(i)];
    EXPECT_TRUE(near(o.d.at(i / 12, i % 12), want, DType::kFloat32));
  }
}

TEST_F(MatmulOnGpu, AnotherMatrixIsAddedToAProduct) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    Operands o(*device, *transfer, {9, 12, 20}, type, type, false, true);
    Operands other(*device, *transfer, {9, 12, 20}, type, type, false, true, 5);
    Product p = o.product();
    p.c = other.d.matrix();
    run(p);
    o.d.download(*transfer);
    for (int64_t r = 0; r < 9; ++r) {
      for (int64_t c = 0; c < 12; ++c) {
        const double want = o.expected(r, c) + other.d.at(r, c);
        EXPECT_TRUE(near(o.d.at(r, c), want, type, 4)) << r << ", " << c;
      }
    }
  }
}

TEST_F(MatmulOnGpu, ABiasIsAddedBeforeRelu) {
  for (const Epilogue epilogue : {Epilogue::kBias, Epilogue::kReluBias}) {
    Operands o(*device, *transfer, {16, 24, 32}, DType::kFloat32, DType::kFloat32, false, true);
    std::vector<float> bias(24);
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i) - 12;
    const Array<float> on_device = upload(bias);
    const Product p = with_bias(o, epilogue, on_device);
    run(p);
    o.d.download(*transfer);
    for (int64_t r = 0; r < 16; ++r) {
      for (int64_t c = 0; c < 24; ++c) {
        double want = o.expected(r, c) + bias[static_cast<size_t>(c)];
        if (epilogue == Epilogue::kReluBias) want = std::max(want, 0.0);
        EXPECT_TRUE(near(o.d.at(r, c), want, DType::kFloat32));
      }
    }
  }
}

#if defined(DLRM_SIMT)
TEST_F(MatmulOnGpu, ReluOfANanIsZeroAsInCublasLt) {
  Operands o(*device, *transfer, {16, 24, 32}, DType::kFloat32, DType::kFloat32, false, true);
  o.a.set(3, 0, std::nanf(""));
  o.a.upload(*transfer);
  const Array<float> bias = upload(std::vector<float>(24, 1));
  run(with_bias(o, Epilogue::kReluBias, bias));
  o.d.download(*transfer);
  for (int64_t c = 0; c < 24; ++c) EXPECT_EQ(o.d.at(3, c), 0);
}
#endif

TEST_F(MatmulOnGpu, ReluMaskServesTheBackward) {
  Operands o(*device, *transfer, {16, 24, 32}, DType::kFloat32, DType::kFloat32, false, true);
  Operands back(*device, *transfer, {16, 24, 8}, DType::kFloat32, DType::kFloat32, false, false);
  const Array<float> bias = upload(std::vector<float>(24, 0.5f));
  const Array<uint8_t> mask(*device, 16 * 128 / 8, "mask");
  const auto sums = upload(std::vector<float>(24));
  Product p = with_bias(o, Epilogue::kReluAuxBias, bias);
  p.aux = mask.data();
  p.aux_stride = 128;
  run(p);
  for (const Epilogue epilogue : {Epilogue::kDrelu, Epilogue::kDreluBgrad}) {
    Product q = with_bias(back, epilogue, sums);
    q.aux = mask.data();
    q.aux_stride = 128;
    run(q);
    back.d.download(*transfer);
    const std::vector<float> got = download(sums.data(), 24);
    for (int64_t c = 0; c < 24; ++c) {
      double column = 0;
      for (int64_t r = 0; r < 16; ++r) {
        const double want = o.expected(r, c) + 0.5 > 0 ? back.expected(r, c) : 0;
        EXPECT_TRUE(near(back.d.at(r, c), want, DType::kFloat32));
        column += want;
      }
      if (epilogue == Epilogue::kDreluBgrad) {
        EXPECT_TRUE(near(got[static_cast<size_t>(c)], column, DType::kFloat32, 5));
      }
    }
  }
}

TEST_F(MatmulOnGpu, GeluStoresItsInputForTheBackward) {
  Operands o(*device, *transfer, {16, 24, 32}, DType::kBFloat16, DType::kBFloat16, false, true);
  std::vector<BFloat16> rounded(24, BFloat16(0.25f));
  const Array<BFloat16> bias = upload(rounded);
  GpuMatrix kept(*device, DType::kBFloat16, 16, 24, 32);
  kept.upload(*transfer);
  Product p = o.product();
  p.epilogue = Epilogue::kGeluAuxBias;
  p.bias = bias.data();
  p.aux = kept.matrix().data;
  p.aux_stride = 32;
  run(p);
  o.d.download(*transfer);
  kept.download(*transfer);
  for (int64_t r = 0; r < 16; ++r) {
    for (int64_t c = 0; c < 24; ++c) {
      const double z = o.expected(r, c) + 0.25;
      const double y = z / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
      EXPECT_TRUE(near(kept.at(r, c), z, DType::kBFloat16));
      EXPECT_NEAR(o.d.at(r, c), y, std::abs(y) * 0x1p-7 + 2e-3);
    }
  }
}

TEST_F(MatmulOnGpu, InputsAreSummedAlongTheInnerSize) {
  for (const DType in : {DType::kFloat32, DType::kBFloat16}) {
    for (const Epilogue epilogue : {Epilogue::kSumsOfA, Epilogue::kSumsOfB}) {
      Operands o(*device, *transfer, {16, 24, 64}, in, DType::kFloat32, true, false);
      const Array<float> sums = upload(std::vector<float>(24));
      const Product p = with_bias(o, epilogue, sums);
      if (!matmul->serves(p, *stream)) continue;
      run(p);
      o.d.download(*transfer);
      const bool of_a = epilogue == Epilogue::kSumsOfA;
      const std::vector<float> got = download(sums.data(), 24);
      for (int64_t i = 0; i < (of_a ? 16 : 24); ++i) {
        double want = 0;
        for (int64_t k = 0; k < 64; ++k) want += of_a ? o.left(i, k) : o.right(k, i);
        EXPECT_NEAR(got[static_cast<size_t>(i)], want, 1e-4);
      }
      EXPECT_TRUE(near(o.d.at(15, 23), o.expected(15, 23), DType::kFloat32));
    }
  }
}

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
      Operands o(*device, *transfer, {5, 8, k}, DType::kFloat32, DType::kFloat32, false, true);
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
  Operands o(*device, *transfer, {9, 12, 20}, DType::kFloat32, DType::kFloat32, false, true);
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
  Operands o(*device, *transfer, {4, 4, 4}, DType::kFloat32, DType::kFloat32, false, false);
  run(o.product());
}

TEST_F(MatmulOnGpu, ProductsOfTwoStreamsDoNotDisturbEachOther) {
  const auto side = device->make_stream();
  Operands o(*device, *transfer, {64, 64, 64}, DType::kFloat32, DType::kFloat32, false, false);
  Operands p(*device, *transfer, {64, 64, 64}, DType::kFloat32, DType::kFloat32, true, false);
  ASSERT_TRUE(matmul->serves(o.product(), *stream) && matmul->serves(p.product(), *side));
  matmul->run(o.product(), *stream);
  matmul->run(p.product(), *side);
  stream->synchronize();
  side->synchronize();
  o.d.download(*transfer);
  p.d.download(*transfer);
  EXPECT_TRUE(near(o.d.at(63, 1), o.expected(63, 1), DType::kFloat32));
  EXPECT_TRUE(near(p.d.at(63, 1), p.expected(63, 1), DType::kFloat32));
}

}  // namespace
}  // namespace dlrm
#endif
