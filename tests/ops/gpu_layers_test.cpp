// Properties that only GPU executions have: captured layers, and products by their own kernel.
#ifdef DLRM_WITH_CUDA
#include <cuda_runtime.h>
#include <gmock/gmock.h>

#include "dlrm/device/cuda/runtime.h"
#include "dlrm/device/transfer.h"

#include "fixture.h"
#include "kernels/product.h"

#if defined(DLRM_SIMT)
#include "simt/simt.h"
#endif

namespace dlrm {
namespace {

/// A layer with its backward in device memory.
struct DeviceLayer {
  DeviceLayer(Device& device, int64_t batch, int64_t in, int64_t out, DType compute)
      : x(device, size(batch * in), "x"),
        w(device, size(in * out), "w"),
        y(device, size(batch * out), "y"),
        z(device, size(batch * out), "z"),
        dy(device, size(batch * out), "dy"),
        dx(device, size(batch * in), "dx"),
        dw(device, size(in * out), "dw"),
        bias(device, size(out), "bias"),
        dbias(device, size(out), "dbias"),
        b(batch),
        n(in),
        o(out),
        type(compute) {}

  static size_t size(int64_t count) { return static_cast<size_t>(count); }
  Matrix of(const Array<float>& array, int64_t rows, int64_t cols) const {
    return {array.data(), type, rows, cols};
  }
  void run(Ops& ops, Activation act) const {
    ops.linear_forward(of(x, b, n), of(w, o, n), bias.view(), act, of(y, b, o), of(z, b, o));
    LinearBackward l;
    l.act = act;
    l.y = of(y, b, o), l.z = of(z, b, o), l.dy = of(dy, b, o), l.x = of(x, b, n), l.w = of(w, o, n);
    l.dx = of(dx, b, n);
    l.dw = {dw.data(), o, n};
    l.dbias = dbias.view();
    ops.run(l);
  }

  Array<float> x, w, y, z, dy, dx, dw, bias, dbias;
  int64_t b, n, o;
  DType type;
};

class GpuLayers : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
    device = make_cuda_device(0);
    stream = device->make_stream();
    transfer = std::make_unique<Transfer>(*device, *stream);
    CudaOpsOptions exact;
    exact.tf32 = false;
    ops = make_cuda_ops(*device, *stream, exact);
  }
  void fill(const Array<float>& array, unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(array.size());
    for (float& value : values) value = normal(generator);
    transfer->to_device(array.data(), values.data(), values.size() * sizeof(float));
  }
  std::vector<float> read(const Array<float>& array) {
    std::vector<float> values(array.size());
    transfer->to_host(values.data(), array.data(), values.size() * sizeof(float));
    return values;
  }

  std::shared_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Transfer> transfer;
  std::unique_ptr<Ops> ops;
};

constexpr Activation kAll[] = {Activation::kNone, Activation::kRelu,    Activation::kGelu,
                               Activation::kSilu, Activation::kSigmoid, Activation::kTanh};

TEST_F(GpuLayers, ACapturedLayerIsReplayedOnNewInputs) {
  for (const Activation act : kAll) {
    const DeviceLayer layer(*device, 37, 13, 24, DType::kFloat32);
    fill(layer.x, 1), fill(layer.w, 2), fill(layer.bias, 3), fill(layer.dy, 4);
    layer.run(*ops, act);  // the first call of a shape must not be captured
    ASSERT_TRUE(stream->begin_capture());
    layer.run(*ops, act);
    const auto graph = stream->end_capture();
    fill(layer.x, 11), fill(layer.dy, 14);
    layer.run(*ops, act);
    const std::vector<float> y = read(layer.y), dx = read(layer.dx), dw = read(layer.dw);
    fill(layer.x, 11), fill(layer.dy, 14), fill(layer.y, 5), fill(layer.dx, 6), fill(layer.dw, 7);
    graph->launch(*stream);
    EXPECT_EQ(read(layer.y), y);
    EXPECT_EQ(read(layer.dx), dx);
    EXPECT_EQ(read(layer.dw), dw);
  }
}

#if defined(DLRM_SIMT)
TEST_F(GpuLayers, AProductWithoutALibraryAlgorithmIsLoggedOncePerShape) {
  const auto logged = [&](int64_t in, int64_t batch = 4, int64_t out = 8) {
    const Array<BFloat16> x(*device, 5 * 24, "x"), w(*device, 9 * 40, "w"), y(*device, 5 * 56, "y");
    const auto matrix = [](const Array<BFloat16>& array, int64_t rows, int64_t cols,
                           int64_t stride) {
      return Matrix(array.data(), DType::kBFloat16, rows, cols, stride);
    };
    testing::internal::CaptureStderr();
    for (int i = 0; i < 2; ++i) {
      ops->linear_forward(matrix(x, batch, in, 24), matrix(w, out, in, 40), {}, Activation::kNone,
                          matrix(y, batch, out, 56), {});
    }
    stream->synchronize();
    return testing::internal::GetCapturedStderr();
  };
  // The emulator's library refuses it.
  EXPECT_THAT(logged(1), testing::HasSubstr("the product [4 x 1] [1 x 8] (bf16, "));
  EXPECT_EQ(logged(2), "");
  EXPECT_EQ(logged(1), "");
  EXPECT_NE(logged(1, 5), "");
  EXPECT_NE(logged(1, 4, 9), "");
}
#endif

TEST_F(GpuLayers, AProductWithoutALibraryAlgorithmIsComputed) {
  const int64_t shapes[][3] = {{1, 1, 1}, {33, 31, 70}, {5, 64, 0}, {100, 3, 32}};
  for (const auto& [m, n, k] : shapes) {
    for (int form = 0; form < 4; ++form) {
      const bool ta = form & 1, tb = form & 2;
      const Array<float> a(*device, DeviceLayer::size(std::max<int64_t>(1, m * k)), "a");
      const Array<float> b(*device, DeviceLayer::size(std::max<int64_t>(1, n * k)), "b");
      const Array<float> d(*device, DeviceLayer::size(m * n), "d");
      const Array<float> added(*device, DeviceLayer::size(m * n), "added");
      fill(a, 1), fill(b, 2), fill(d, 3), fill(added, 4);
      const auto matrix = [](const Array<float>& array, int64_t rows, int64_t cols) {
        return Matrix(array.data(), DType::kFloat32, rows, cols);
      };
      kernels::product(
          ta ? matrix(a, k, m) : matrix(a, m, k), ta, tb ? matrix(b, n, k) : matrix(b, k, n), tb,
          form == 3 ? matrix(added, m, n) : Matrix(), matrix(d, m, n), cuda::native(*stream));
      const std::vector<float> left = read(a), right = read(b), got = read(d), more = read(added);
      for (int64_t r = 0; r < m; ++r) {
        for (int64_t c = 0; c < n; ++c) {
          double want = form == 3 ? double{more[DeviceLayer::size(r * n + c)]} : 0;
          for (int64_t i = 0; i < k; ++i) {
            want += double{left[DeviceLayer::size(ta ? i * m + r : r * k + i)]} *
                    right[DeviceLayer::size(tb ? c * k + i : i * n + c)];
          }
          ASSERT_NEAR(got[DeviceLayer::size(r * n + c)], want, 1e-4);
        }
      }
    }
  }
}

/// Gradients of weights on the side stream, and those of another layer on the main stream: of one
/// output, of no inputs, and of others.
TEST_F(GpuLayers, StreamsThatRunAtTheSameTimeShareNoScratch) {
  struct Shape {
    int64_t in, out;
  };
  for (const Shape& shape : {Shape{33, 1}, {0, 9}, {0, 1}, {71, 67}}) {
    const int64_t in = shape.in, out = shape.out;
    const DeviceLayer side(*device, 700, in, out, DType::kFloat32),
        main(*device, 700, in, out, DType::kFloat32);
    fill(side.x, 1), fill(side.dy, 2), fill(main.x, 3), fill(main.dy, 4);
    const auto queue_side = [&] {
      LinearBackward l;
      l.dy = side.of(side.dy, side.b, out), l.x = side.of(side.x, side.b, in);
      l.w = side.of(side.w, out, in), l.added = l.x, l.deferred = true;
      // Without inputs no element is written. A null pointer would leave out dbias as well.
      l.dw = {in > 0 ? side.dw.data() : side.dbias.data(), out, in};
      l.dbias = side.dbias.view();
      ops->run(l);
    };
    const auto queue_main = [&] {
      ops->linear_backward_weight(main.of(main.dy, main.b, out), main.of(main.x, main.b, in),
                                  {main.dw.data(), out, in}, main.dbias.view());
    };
    const auto wait = [&] {
      stream->synchronize();
      ops->gradient_stream()->synchronize();
    };
    const auto results = [&] {
      std::vector<std::vector<float>> all;
      for (const auto* array : {&side.dw, &side.dbias, &main.dw, &main.dbias}) {
        all.push_back(read(*array));
      }
      return all;
    };
    queue_side(), wait(), queue_main(), wait();
    const auto apart = results();
    EXPECT_NE(apart[1], apart[3]);
    for (int i = 0; i < 30; ++i) {
      for (const auto* array : {&side.dw, &side.dbias, &main.dw, &main.dbias}) fill(*array, 5);
      i % 2 == 0 ? (queue_side(), queue_main()) : (queue_main(), queue_side());
      wait();
      ASSERT_EQ(results(), apart) << in << " -> " << out;
    }
  }
}

}  // namespace
}  // namespace dlrm
#endif
