// Properties that only GPU executions have: products by their own kernel, and a side stream.
#ifdef DLRM_WITH_CUDA
#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "dlrm/ops/ops.h"

#include "device/gpu_fixture.h"
#include "kernels/product.h"

namespace dlrm {
namespace {

std::vector<float> numbers(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

using OwnProducts = OnGpu;

TEST_F(OwnProducts, OfAnyFormAreComputed) {
  const int64_t shapes[][3] = {{1, 1, 1}, {33, 31, 70}, {5, 64, 0}, {100, 3, 32}};
  for (const auto& [m, n, k] : shapes) {
    for (int form = 0; form < 4; ++form) {
      const bool ta = form & 1, tb = form & 2;
      const std::vector<float> left = numbers(m * k, 1), right = numbers(n * k, 2);
      const std::vector<float> more = numbers(m * n, 4);
      const Array<float> a = upload(left), b = upload(right), added = upload(more);
      const Array<float> d = upload(numbers(m * n, 3));
      const auto matrix = [](const Array<float>& array, int64_t rows, int64_t cols) {
        return Matrix(array.data(), DType::kFloat32, rows, cols);
      };
      kernels::product(ta ? matrix(a, k, m) : matrix(a, m, k), ta,
                       tb ? matrix(b, n, k) : matrix(b, k, n), tb,
                       form == 3 ? matrix(added, m, n) : Matrix(), matrix(d, m, n), native());
      const std::vector<float> got = download(d.data(), static_cast<size_t>(m * n));
      for (int64_t r = 0; r < m; ++r) {
        for (int64_t c = 0; c < n; ++c) {
          const auto at = static_cast<size_t>(r * n + c);
          double want = form == 3 ? double{more[at]} : 0;
          for (int64_t i = 0; i < k; ++i) {
            want += double{left[static_cast<size_t>(ta ? i * m + r : r * k + i)]} *
                    right[static_cast<size_t>(tb ? c * k + i : i * n + c)];
          }
          ASSERT_NEAR(got[at], want, 1e-4);
        }
      }
    }
  }
}

using SideStream = OnGpu;

/// Gradients of weights on the side stream, and those of another layer on the main stream: of one
/// output, of no inputs, and of others.
TEST_F(SideStream, SharesNoScratchWithTheMainStreamAtTheSameTime) {
  constexpr int64_t kBatch = 700;
  CudaOpsOptions exact;
  exact.tf32 = false;
  const auto ops = make_cuda_ops(*device, *stream, exact);
  struct Layer {
    Array<float> x, dy, dw, dbias;
  };
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{33, 1}, {0, 9}, {0, 1}, {71, 67}}) {
    const auto layer = [&, in = in, out = out](unsigned seed) {
      return Layer{upload(numbers(kBatch * in, seed)), upload(numbers(kBatch * out, seed + 1)),
                   upload(numbers(in * out, 5)), upload(numbers(out, 5))};
    };
    const Layer side = layer(1), main = layer(3);
    const auto of = [](const Array<float>& array, int64_t cols) {
      return Matrix(array.data(), DType::kFloat32, kBatch, cols);
    };
    const Array<float> weights = upload(numbers(in * out, 6));
    const auto queue_side = [&, in = in, out = out] {
      LinearBackward l;
      l.dy = of(side.dy, out), l.x = of(side.x, in);
      l.w = Matrix(weights.data(), DType::kFloat32, out, in), l.added = l.x, l.deferred = true;
      // Without inputs no element is written. A null pointer would leave out dbias as well.
      l.dw = {side.dw.data(), out, in};
      l.dbias = side.dbias.view();
      ops->run(l);
    };
    const auto queue_main = [&, in = in, out = out] {
      ops->linear_backward_weight(of(main.dy, out), of(main.x, in), {main.dw.data(), out, in},
                                  main.dbias.view());
    };
    const auto wait = [&] {
      stream->synchronize();
      ops->gradient_stream()->synchronize();
    };
    const Array<float>* const results[] = {&side.dw, &side.dbias, &main.dw, &main.dbias};
    const auto computed = [&] {
      std::vector<std::vector<float>> all;
      for (const Array<float>* array : results) {
        all.push_back(download(array->data(), array->size()));
      }
      return all;
    };
    queue_side(), wait(), queue_main(), wait();
    const auto apart = computed();
    EXPECT_NE(apart[1], apart[3]);
    for (int i = 0; i < 30; ++i) {
      for (size_t r = 0; r < std::size(results); ++r) {
        if (in == 0 && r % 2 == 0) continue;  // not written
        const std::vector<float> other = numbers(std::ssize(apart[r]), 7);
        transfer->to_device(results[r]->data(), other.data(), other.size() * sizeof(float));
      }
      i % 2 == 0 ? (queue_side(), queue_main()) : (queue_main(), queue_side());
      wait();
      ASSERT_EQ(computed(), apart) << in << " -> " << out;
    }
  }
}

}  // namespace
}  // namespace dlrm
#endif
