// Dot and fm interactions, cross layers, pooling along a row.
#include <fmt/format.h>

#include "kernels_clock.h"

namespace dlrm::bench {
namespace {

constexpr int64_t kPoolWindow = 7;

void time_dot(KernelClock& clock, DType type, double goal) {
  const KernelSizes& s = clock.options.sizes;
  const std::string name = fmt::format("dot {}", name_of(type));
  if (!clock.wants(name + " forward") && !clock.wants(name + " backward")) return;
  const int64_t b = s.batch, w = s.width, f = s.features, n = w + (f + 1) * f / 2;
  const Array<char> x = clock.numbers(b, w, type, "dense vectors");
  const Array<char> e = clock.numbers(b, f * w, type, "embedding vectors");
  const Array<char> z = clock.numbers(b, n, type, "interaction");
  const Array<char> dx = clock.numbers(b, w, type, "gradients of dense vectors");
  const Array<char> de = clock.numbers(b, f * w, type, "gradients of vectors");
  const Matrix in(x.data(), type, b, w), vectors(e.data(), type, b, f * w);
  const Matrix out(z.data(), type, b, n);
  const double elements = static_cast<double>(b) * static_cast<double>(size_of(type));
  KernelRow row;
  row.shape = fmt::format("{} x {} x {}", b, f + 1, w);
  row.goal = goal;
  row.name = name + " forward";
  row.bytes = elements * static_cast<double>((f + 1) * w + n);
  clock.time(row, [&] { clock.ops.dot_forward(in, vectors, out); });
  row.name = name + " backward";
  row.bytes = elements * static_cast<double>(2 * (f + 1) * w + n);
  clock.time(row, [&] {
    clock.ops.dot_backward(in, vectors, out, {dx.data(), type, b, w}, {de.data(), type, b, f * w});
  });
}

void time_fm(KernelClock& clock, DType type) {
  const KernelSizes& s = clock.options.sizes;
  const std::string name = fmt::format("fm {}", name_of(type));
  if (!clock.wants(name + " forward") && !clock.wants(name + " backward")) return;
  const int64_t b = s.batch, w = s.width, columns = s.features * w, n = w + columns + 1;
  const Array<char> x = clock.numbers(b, w, type, "dense vectors");
  const Array<char> e = clock.numbers(b, columns, type, "embedding vectors");
  const Array<char> z = clock.numbers(b, n, type, "interaction");
  const Array<char> dx = clock.numbers(b, w, type, "gradients of dense vectors");
  const Array<char> de = clock.numbers(b, columns, type, "gradients of vectors");
  const Matrix in(x.data(), type, b, w), vectors(e.data(), type, b, columns);
  const Matrix out(z.data(), type, b, n);
  const double elements = static_cast<double>(b) * static_cast<double>(size_of(type));
  KernelRow row;
  row.shape = fmt::format("{} x {} x {}", b, s.features + 1, w);
  row.name = name + " forward";
  row.bytes = elements * static_cast<double>(w + columns + n);
  clock.time(row, [&] { clock.ops.run(FmForward{in, vectors, out}); });
  row.name = name + " backward";
  row.bytes = elements * static_cast<double>(2 * (w + columns) + n);
  clock.time(row, [&] {
    clock.ops.run(
        FmBackward{in, vectors, out, {dx.data(), type, b, w}, {de.data(), type, b, columns}});
  });
}

constexpr int64_t kCrossLayers = 3;  // as in MLPerf's DCNv2

void time_cross(KernelClock& clock, DType type) {
  const int64_t b = clock.options.sizes.batch, n = clock.options.sizes.crossed;
  const std::string name = fmt::format("cross {}", name_of(type));
  const auto wanted = [&](const char* pass) { return clock.wants(name + pass); };
  if (!wanted(" forward") && !wanted(" backward") && !wanted(" input backward")) return;
  const Array<char> gates = clock.numbers(kCrossLayers * b, n, type, "cross layers");
  const Array<char> gradients = clock.numbers(kCrossLayers * b, n, type, "cross layers");
  const Array<char> last = clock.numbers(b, n, type, "cross layers");
  const Array<char> input = clock.numbers(b, n, type, "cross layers");
  const Array<char> du = clock.numbers(b, n, type, "cross layers");
  const Matrix x0(input.data(), type, b, n);
  const Matrix t(gates.data(), type, kCrossLayers * b, n);
  const Matrix dy(gradients.data(), type, kCrossLayers * b, n);
  const Matrix dz(last.data(), type, b, n);
  const auto block = [&](const Matrix& of, int64_t layer) { return of.row_range(layer * b, b); };
  const double elements = static_cast<double>(b * n);
  const double size = static_cast<double>(size_of(type));
  KernelRow row;
  row.shape = fmt::format("{} x {}", b, n);
  row.name = name + " forward";
  row.bytes = 3 * size * elements;
  clock.time(row, [&] { clock.ops.cross_forward(x0, block(t, 0), dz); });
  row.name = name + " backward";
  row.bytes = 3 * size * elements;
  clock.time(row, [&] { clock.ops.cross_backward(x0, dz, block(dy, 0)); });
  row.name = name + " input backward";
  row.shape = fmt::format("{} x {} x {}", kCrossLayers, b, n);
  row.bytes = (2 * kCrossLayers + 3) * size * elements;
  const Matrix above = dy.row_range(0, (kCrossLayers - 1) * b);
  clock.time(row, [&] {
    clock.ops.cross_input_backward(x0, t, above, dz, {du.data(), type, b, n}, block(dy, 2));
  });
}

void time_pool(KernelClock& clock) {
  const KernelSizes& s = clock.options.sizes;
  const int64_t b = s.batch, columns = s.features * s.width;
  const int64_t pooled = (columns + kPoolWindow - 1) / kPoolWindow;
  if (!clock.wants("average pool forward") && !clock.wants("average pool backward")) return;
  const Array<char> e = clock.numbers(b, columns, DType::kFloat32, "embedding vectors");
  const Array<char> y = clock.numbers(b, pooled, DType::kFloat32, "pooled");
  const MatrixView<float> floats(reinterpret_cast<float*>(e.data()), b, columns);
  const Matrix out(y.data(), DType::kFloat32, b, pooled);
  KernelRow row{.name = "average pool forward",
                .shape = fmt::format("{} x {} / {}", b, columns, kPoolWindow)};
  row.bytes = 4.0 * static_cast<double>(b * (columns + pooled));
  clock.time(row, [&] { clock.ops.average_pool_forward(floats, kPoolWindow, out); });
  row.name = "average pool backward";
  clock.time(row, [&] { clock.ops.average_pool_backward(out, kPoolWindow, floats); });
}

}  // namespace

void time_interactions(KernelClock& clock) {
  time_dot(clock, DType::kBFloat16, 0.7);
  time_dot(clock, DType::kFloat32, 0);
  time_fm(clock, DType::kBFloat16);
  time_fm(clock, DType::kFloat32);
  time_cross(clock, DType::kBFloat16);
  time_cross(clock, DType::kFloat32);
  time_pool(clock);
}

}  // namespace dlrm::bench
