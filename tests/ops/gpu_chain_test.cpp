// Layers that share passes on GPUs: a layer's backward does part of the work of the layer below.
#ifdef DLRM_WITH_CUDA
#include <cstdlib>

#include "dlrm/device/transfer.h"

#include "fixture.h"

namespace dlrm {
namespace {

/// A matrix in device memory. Its rows are `stride` elements apart.
class OnDevice {
 public:
  OnDevice(Device& device, Transfer& transfer, int64_t rows, int64_t cols, DType type,
           unsigned seed, int64_t stride = 0)
      : transfer_(transfer),
        stride_(stride ? stride : cols),
        buffer_(device, static_cast<size_t>(rows * stride_) * size_of(type), "matrix"),
        matrix_(buffer_.data(), type, rows, cols, stride_) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(rows * stride_));
    for (float& value : values) value = normal(generator);
    set(values);
  }
  const Matrix& matrix() const { return matrix_; }
  MatrixView<float> floats() const { return matrix_.f32(); }
  View<float> view() const { return {matrix_.f32().data, static_cast<size_t>(matrix_.cols)}; }

  /// All rows, including the gaps between them.
  std::vector<float> get() {
    std::vector<float> values(static_cast<size_t>(matrix_.rows * stride_));
    if (matrix_.type == DType::kFloat32) {
      transfer_.to_host(values.data(), buffer_.data(), values.size() * sizeof(float));
      return values;
    }
    std::vector<BFloat16> rounded(values.size());
    transfer_.to_host(rounded.data(), buffer_.data(), rounded.size() * sizeof(BFloat16));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(rounded[i]);
    return values;
  }
  void set(const std::vector<float>& values) {
    if (matrix_.type == DType::kFloat32) {
      transfer_.to_device(buffer_.data(), values.data(), values.size() * sizeof(float));
      return;
    }
    std::vector<BFloat16> rounded;
    for (const float value : values) rounded.emplace_back(value);
    transfer_.to_device(buffer_.data(), rounded.data(), rounded.size() * sizeof(BFloat16));
  }

 private:
  Transfer& transfer_;
  int64_t stride_;
  Buffer buffer_;
  Matrix matrix_;
};

struct ChainCase {
  int64_t batch, in, middle, out;
};
const ChainCase kCases[] = {
    {37, 13, 24, 16}, {130, 8, 9, 1}, {1, 3, 40, 5}, {200, 16, 64, 1}, {300, 5, 1, 3}};

class GpuChain : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
    device = make_cuda_device(0);
    stream = device->make_stream();
    transfer = std::make_unique<Transfer>(*device, *stream);
  }
  void TearDown() override { unsetenv("DLRM_SIMT_TIMING"); }
  /// Operations with the algorithms that the timing of one day would choose.
  std::unique_ptr<Ops> timed_on_day(int day) {
    setenv("DLRM_SIMT_TIMING", std::to_string(day).c_str(), 1);
    CudaOpsOptions options;
    options.tf32 = false;
    options.timed_products = 8;
    return make_cuda_ops(*device, *stream, options);
  }
  OnDevice make(int64_t rows, int64_t cols, DType type, unsigned seed, int64_t stride = 0) {
    return {*device, *transfer, rows, cols, type, seed, stride};
  }

  std::shared_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Transfer> transfer;
};

void expect_near(const std::vector<float>& got, const std::vector<float>& want, double relative,
                 double absolute, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], std::abs(want[i]) * relative + absolute) << what << " " << i;
  }
}

TEST_F(GpuChain, ChosenAlgorithmsAreRestored) {
  OnDevice x = make(40, 32, DType::kFloat32, 1), w = make(24, 32, DType::kFloat32, 2),
           y = make(40, 24, DType::kFloat32, 3);
  const auto timed = timed_on_day(1), other = timed_on_day(2);
  EXPECT_EQ(timed->tuned_algorithms(), other->tuned_algorithms());
  timed->linear_forward(x.matrix(), w.matrix(), {}, Activation::kNone, y.matrix(), {});
  timed->dense_update(OptimizerStep(), {}, {}, {}, {}, {});  // ends the timing
  const std::vector<std::byte> chosen = timed->tuned_algorithms();
  EXPECT_NE(chosen, other->tuned_algorithms());
  other->restore_tuned_algorithms(chosen);
  EXPECT_EQ(other->tuned_algorithms(), chosen);
}

TEST_F(GpuChain, BackwardIncludesTheActivationOfTheLayerBelow) {
  for (int day = 0; day <= 8; ++day) {
    const auto fused = timed_on_day(day), plain = timed_on_day(0);
    ASSERT_TRUE(fused->fuses_layers());
    for (const ChainCase& s : kCases) {
      if (day > 2 && (s.middle != 24 || s.out != 16)) continue;  // each day another way is chosen
      for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
        for (const Activation act :
             {Activation::kNone, Activation::kRelu, Activation::kGelu, Activation::kTanh}) {
          const int64_t pad = (s.middle + 7) / 8 * 8;
          OnDevice x = make(s.batch, s.in, type, 1), w = make(s.middle, s.in, type, 2),
                   bias = make(1, s.middle, DType::kFloat32, 3),
                   y = make(s.batch, s.middle, type, 4, pad),
                   z = make(s.batch, s.middle, type, 5, pad),
                   above = make(s.out, s.middle, type, 6), dy = make(s.batch, s.out, type, 7),
                   dx = make(s.batch, s.middle, type, 8, pad),
                   want = make(s.batch, s.middle, type, 8, pad),
                   dw = make(s.out, s.middle, DType::kFloat32, 9),
                   want_dw = make(s.out, s.middle, DType::kFloat32, 9),
                   db = make(1, s.out, DType::kFloat32, 10),
                   want_db = make(1, s.out, DType::kFloat32, 10),
                   below_db = make(1, s.middle, DType::kFloat32, 11);
          const Buffer bits(*device, static_cast<size_t>(s.batch * 16), "mask");
          ReluMask mask{bits.data(), 128, false};
          LinearForward forward;
          forward.x = x.matrix(), forward.w = w.matrix(), forward.bias = bias.view();
          forward.act = act, forward.y = y.matrix(), forward.z = z.matrix();
          if (act == Activation::kRelu) forward.mask = &mask;
          fused->run(forward);

          LayerBelow below;
          below.act = act, below.y = y.matrix(), below.z = z.matrix();
          below.mask = forward.mask;
          below.dbias = below_db.view();
          LinearBackward layer;
          layer.dy = dy.matrix(), layer.x = y.matrix(), layer.w = above.matrix();
          layer.dx = dx.matrix(), layer.dw = dw.floats(), layer.dbias = db.view();
          layer.below = &below;
          fused->run(layer);  // times each way to compute it
          for (OnDevice* result : {&dx, &want, &dw, &db, &below_db}) {
            result->set(std::vector<float>(result->get().size(), 7.0f));
          }
          below.has_dbias = false;
          fused->run(layer);  // computes it in one way

          plain->linear_backward_input(dy.matrix(), above.matrix(), want.matrix());
          plain->activation_backward(act, y.matrix(), z.matrix(), want.matrix());
          plain->linear_backward_weight(dy.matrix(), y.matrix(), want_dw.floats(), want_db.view());
          const std::string what =
              fmt::format("day {} {} x {} -> {} {} act {}", day, s.batch, s.middle, s.out,
                          name_of(type), static_cast<int>(act));
          const std::vector<float> got = dx.get();
          const double step = type == DType::kFloat32 ? 1e-5 : 0x1p-7;
          expect_near(got, want.get(), step, 1e-5, what + " dx");
          expect_near(dw.get(), want_dw.get(), 1e-5, 1e-4, what + " dw");
          expect_near(db.get(), want_db.get(), 1e-5, 1e-4, what + " dbias");
          if (!below.has_dbias) continue;
          std::vector<float> sums(static_cast<size_t>(s.middle));
          for (int64_t c = 0; c < s.middle; ++c) {
            double sum = 0;
            for (int64_t r = 0; r < s.batch; ++r) sum += got[static_cast<size_t>(r * pad + c)];
            sums[static_cast<size_t>(c)] = static_cast<float>(sum);
          }
          expect_near(below_db.get(), sums, 1e-5, 1e-4, what + " dbias below");
        }
      }
    }
  }
}

TEST_F(GpuChain, DeferredGradientsHaveTheSameBits) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const ChainCase& s : kCases) {
      const auto ops = timed_on_day(0);
      OnDevice x = make(s.batch, s.in, type, 1), w = make(s.out, s.in, type, 2),
               dx = make(s.batch, s.in, type, 3), dw = make(s.out, s.in, DType::kFloat32, 4),
               db = make(1, s.out, DType::kFloat32, 5);
      std::vector<float> results[2];
      for (const bool deferred : {false, true}) {
        OnDevice dy = make(s.batch, s.out, type, 6);
        LinearBackward layer;
        layer.dy = dy.matrix(), layer.x = x.matrix(), layer.w = w.matrix(), layer.dx = dx.matrix();
        layer.dw = dw.floats(), layer.dbias = db.view(), layer.deferred = deferred;
        ops->run(layer);
        const std::unique_ptr<Event> complete = device->make_event();
        ops->gradient_stream()->record(*complete);
        stream->wait(*complete);
        for (OnDevice* result : {&dx, &dw, &db}) {
          const std::vector<float> values = result->get();
          results[deferred].insert(results[deferred].end(), values.begin(), values.end());
          result->set(std::vector<float>(values.size(), 7.0f));
        }
      }
      EXPECT_EQ(results[0], results[1]);
    }
  }
}

TEST_F(GpuChain, ManyRowsAreSummed) {
  const auto ops = timed_on_day(0);
  for (const int64_t cols : {1, 13, 64, 300}) {
    const int64_t rows = 16500;  // more rows than the smallest chunk
    OnDevice dz = make(rows, cols, DType::kBFloat16, 1), x = make(rows, 1, DType::kBFloat16, 2),
             dw = make(cols, 1, DType::kFloat32, 3), db = make(1, cols, DType::kFloat32, 4);
    ops->linear_backward_weight(dz.matrix(), x.matrix(), dw.floats(), db.view());
    const std::vector<float> values = dz.get(), got = db.get();
    for (int64_t c = 0; c < cols; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) sum += values[static_cast<size_t>(r * cols + c)];
      ASSERT_NEAR(got[static_cast<size_t>(c)], sum, 1e-3) << cols;
    }
  }
}

}  // namespace
}  // namespace dlrm
#endif
