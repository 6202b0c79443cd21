// Linear layers as training calls them, and the products of DCNv2's cross layers.
#include <utility>

#include <fmt/format.h>

#include "kernels_clock.h"

namespace dlrm::bench {
namespace {

/// The arrays of a layer of `in` inputs and `out` outputs, and its operations.
struct LayerArrays {
  KernelClock& clock;
  DType type;
  int64_t b, in, out;
  Array<char> x_, w_, y_, dy_, dx_, dw_, bias_, dbias_, rounded_, added_;

  LayerArrays(KernelClock& clock, DType type, int64_t b, int64_t in, int64_t out)
      : clock(clock),
        type(type),
        b(b),
        in(in),
        out(out),
        x_(clock.numbers(b, in, type, "activations")),
        w_(clock.numbers(out, in, type, "weights")),
        y_(clock.numbers(b, out, type, "activations")),
        dy_(clock.numbers(b, out, type, "gradients")),
        dx_(clock.numbers(b, in, type, "gradients")),
        dw_(clock.numbers(out, in, DType::kFloat32, "weight gradients")),
        bias_(clock.numbers(1, out, DType::kFloat32, "bias")),
        dbias_(clock.numbers(1, std::max(in, out), DType::kFloat32, "bias gradients")),
        rounded_(clock.numbers(1, out, DType::kBFloat16, "bias in bf16")),
        added_(clock.numbers(b, std::max(in, out), type, "what is added")) {}

  Matrix matrix(const Array<char>& of, int64_t rows, int64_t cols) const {
    return {of.data(), type, rows, cols};
  }
  View<float> floats(const Array<char>& of, int64_t size) const {
    return {reinterpret_cast<float*>(of.data()), static_cast<size_t>(size)};
  }

  LinearForward forward(Activation act) const {
    LinearForward f;
    f.x = matrix(x_, b, in), f.w = matrix(w_, out, in), f.y = matrix(y_, b, out);
    f.bias = floats(bias_, out);
    f.rounded_bias = {reinterpret_cast<BFloat16*>(rounded_.data()), static_cast<size_t>(out)};
    f.act = act;
    return f;
  }
  /// The gradient of the input, without those of parameters.
  LinearBackward backward() const {
    LinearBackward g;
    g.y = matrix(y_, b, out), g.dy = matrix(dy_, b, out), g.x = matrix(x_, b, in);
    g.w = matrix(w_, out, in), g.dx = matrix(dx_, b, in);
    g.deferred = true;
    return g;
  }

  /// `passes` products of this layer. Each reads both factors and writes its result.
  KernelRow row(const std::string& name, int passes = 1) const {
    KernelRow row{.name = name, .shape = fmt::format("{} x {} x {}", b, in, out)};
    row.flops = 2.0 * passes * static_cast<double>(b * in * out);
    return row;
  }
  void time_weight_gradient(const std::string& name, bool with_bias) const {
    clock.time(row(name), [&] {
      clock.ops.linear_backward_weight(matrix(dy_, b, out), matrix(x_, b, in),
                                       {reinterpret_cast<float*>(dw_.data()), out, in},
                                       with_bias ? floats(dbias_, out) : View<float>());
    });
  }
};

bool wants_any(const KernelClock& clock, const std::string& name,
               std::initializer_list<const char*> passes) {
  return std::any_of(passes.begin(), passes.end(),
                     [&](const char* pass) { return clock.wants(name + pass); });
}

constexpr const char* kForward = " forward, relu";
constexpr const char* kMasked = " forward, relu and its mask";
constexpr const char* kAdded = " forward, bias and a matrix added";
constexpr const char* kBackward = " backward, relu";
constexpr const char* kMaskedBackward = " input backward through a relu mask";
constexpr const char* kWeight = " weight and bias gradient";

void time_linear(KernelClock& clock, DType type) {
  const int64_t b = clock.options.sizes.batch, n = clock.options.sizes.layer;
  const std::string name = fmt::format("linear {}", name_of(type));
  if (!wants_any(clock, name, {kForward, kMasked, kAdded, kBackward, kMaskedBackward, kWeight})) {
    return;
  }
  const LayerArrays layer(clock, type, b, n, n);
  clock.time(layer.row(name + kForward), [&] { clock.ops.run(layer.forward(Activation::kRelu)); });
  LinearForward added = layer.forward(Activation::kNone);
  added.added = layer.matrix(layer.added_, b, n);
  clock.time(layer.row(name + kAdded), [&] { clock.ops.run(added); });
  LinearBackward whole = layer.backward();
  whole.act = Activation::kRelu;
  whole.deferred = false;
  whole.dw = {reinterpret_cast<float*>(layer.dw_.data()), n, n};
  whole.dbias = layer.floats(layer.dbias_, n);
  clock.time(layer.row(name + kBackward, 2), [&] { clock.ops.run(whole); });
  layer.time_weight_gradient(name + kWeight, true);
  if (!clock.ops.fuses_layers() || !wants_any(clock, name, {kMasked, kMaskedBackward})) return;

  ReluMask mask;
  mask.stride = (n + 127) / 128 * 128;
  const Array<char> bits = clock.numbers(b, mask.stride / 32, DType::kFloat32, "activation masks");
  mask.bits = bits.data();
  LinearForward masked = layer.forward(Activation::kRelu);
  masked.mask = &mask;
  const auto note = [&] { return std::string(mask.written ? "" : "relu is not fused"); };
  clock.ops.run(masked);
  clock.time(
      layer.row(name + kMasked), [&] { clock.ops.run(masked); }, note);
  // This layer's input is the output of a relu layer, whose mask has the shape of dx.
  LayerBelow below;
  below.act = Activation::kRelu;
  below.y = layer.matrix(layer.x_, b, n);
  below.mask = &mask;
  below.dbias = layer.floats(layer.dbias_, n);
  LinearBackward through = layer.backward();
  through.below = &below;
  clock.time(
      layer.row(name + kMaskedBackward), [&] { clock.ops.run(through); },
      [&] {
        return mask.written && below.has_dbias ? std::string("sums the bias gradient") : note();
      });
}

/// Weight gradients dw = dzᵀ x of layers as small as DLRM's, summed over the whole batch.
void time_weight_gradients(KernelClock& clock) {
  const int64_t b = clock.options.sizes.batch;
  const std::pair<int64_t, int64_t> layers[] = {
      {512, 13}, {256, 512}, {128, 256}, {1024, 479}, {1, 256}};
  for (const auto& [out, in] : layers) {
    KernelRow row{.name = fmt::format("linear bf16 weight gradient, {} to {}", in, out),
                  .shape = fmt::format("{} x {} x {}", out, in, b)};
    if (!clock.wants(row.name)) continue;
    const int64_t stride = (in + 7) / 8 * 8;  // models pad rows to a multiple of 8
    const Array<char> x = clock.numbers(b, stride, DType::kBFloat16, "activations");
    const Array<char> dz = clock.numbers(b, out, DType::kBFloat16, "gradients");
    const Array<float> dw(clock.device, static_cast<size_t>(out * in), "weight gradients");
    const Array<float> dbias(clock.device, static_cast<size_t>(out), "bias gradients");
    row.bytes = 2.0 * static_cast<double>(b * (in + out)) + 4.0 * static_cast<double>(out * in);
    row.flops = 2.0 * static_cast<double>(b * in * out);
    clock.time(row, [&] {
      clock.ops.linear_backward_weight({dz.data(), DType::kBFloat16, b, out},
                                       {x.data(), DType::kBFloat16, b, in, stride},
                                       {dw.data(), out, in}, dbias.view());
    });
  }
}

/// The six products of a cross layer U (V x) + b, at MLPerf's batch and widths unless told
/// otherwise: V brings n columns down to the rank, U brings them up.
void time_cross_products(KernelClock& clock) {
  const KernelSizes& s = clock.options.sizes;
  const int64_t b = std::max<int64_t>(1, s.batch * 27 / 32), n = s.crossed, rank = s.rank;
  const DType type = DType::kBFloat16;
  const std::string down = "cross layer bf16 down", up = "cross layer bf16 up";
  if (wants_any(clock, down, {" forward", " input backward, added", " weight gradient"})) {
    const LayerArrays v(clock, type, b, n, rank);
    LinearForward forward = v.forward(Activation::kNone);
    forward.bias = {}, forward.rounded_bias = {};
    clock.time(v.row(down + " forward"), [&] { clock.ops.run(forward); });
    LinearBackward back = v.backward();
    back.added = v.matrix(v.added_, b, n);
    clock.time(v.row(down + " input backward, added"), [&] { clock.ops.run(back); });
    v.time_weight_gradient(down + " weight gradient", false);
  }
  if (wants_any(clock, up, {" forward, added", " input backward", " weight and bias gradient"})) {
    const LayerArrays u(clock, type, b, rank, n);
    LinearForward forward = u.forward(Activation::kNone);
    forward.added = u.matrix(u.added_, b, n);
    clock.time(u.row(up + " forward, added"), [&] { clock.ops.run(forward); });
    const LinearBackward back = u.backward();
    clock.time(u.row(up + " input backward"), [&] { clock.ops.run(back); });
    u.time_weight_gradient(up + " weight and bias gradient", true);
  }
}

}  // namespace

void time_layers(KernelClock& clock) {
  time_cross_products(clock);
  time_linear(clock, DType::kBFloat16);
  time_linear(clock, DType::kFloat32);
  time_weight_gradients(clock);
}

}  // namespace dlrm::bench
