// Loss, movement and updates of dense parameters.
#include <fmt/format.h>

#include "kernels_clock.h"

namespace dlrm::bench {
namespace {

void time_loss(KernelClock& clock) {
  const int64_t b = clock.options.sizes.batch;
  const auto samples = static_cast<size_t>(b);
  if (!clock.wants("cross-entropy")) return;
  const Array<char> logits = clock.numbers(b, 1, DType::kFloat32, "logits");
  const Array<char> labels = clock.numbers(b, 1, DType::kFloat32, "labels");
  const Array<double> loss(clock.device, 1, "loss");
  const Matrix l(logits.data(), DType::kFloat32, b, 1);
  KernelRow row{.name = "cross-entropy", .shape = fmt::format("{}", b)};
  row.bytes = 12.0 * static_cast<double>(b);
  clock.time(row, [&] {
    clock.ops.bce_with_logits(l, {{reinterpret_cast<float*>(labels.data()), samples}, {}}, 1e-3f,
                              loss.view(), l);
  });
}

/// Assembles E from the blocks that owners return.
void time_blocks(KernelClock& clock) {
  const KernelSizes& s = clock.options.sizes;
  const int64_t b = s.batch, w = s.width, f = s.features;
  if (!clock.wants("copy blocks")) return;
  const Array<char> from = clock.numbers(b * f, w, DType::kFloat32, "blocks");
  const Array<char> to = clock.numbers(b, f * w, DType::kFloat32, "embedding vectors");
  std::vector<BlockCopy> blocks;
  for (int64_t i = 0; i < f; ++i) {
    BlockCopy copy;
    copy.src = from.data() + i * b * w * 4;
    copy.dst = to.data() + i * w * 4;
    copy.src_stride = w;
    copy.dst_stride = f * w;
    copy.rows = b;
    copy.cols = w;
    blocks.push_back(copy);
  }
  KernelRow row{.name = "copy blocks", .shape = fmt::format("{} of {} x {}", f, b, w)};
  row.bytes = 8.0 * static_cast<double>(b * f * w);
  clock.time(row, [&] { clock.ops.copy_blocks(blocks); });
}

void time_movement(KernelClock& clock) {
  const KernelSizes& s = clock.options.sizes;
  const int64_t b = s.batch, n = s.features * s.width;
  if (!clock.wants("convert fp32 to bf16") && !clock.wants("find non-finite fp32")) return;
  const Array<char> wide = clock.numbers(b, n, DType::kFloat32, "activations");
  const Array<char> narrow = clock.numbers(b, n, DType::kBFloat16, "activations");
  const Array<float> bad(clock.device, 1, "flag");
  KernelRow row;
  row.shape = fmt::format("{} x {}", b, n);
  row.name = "convert fp32 to bf16";
  row.bytes = 6.0 * static_cast<double>(b * n);
  const Matrix from(wide.data(), DType::kFloat32, b, n);
  clock.time(row, [&] { clock.ops.convert(from, {narrow.data(), DType::kBFloat16, b, n}); });
  row.name = "find non-finite fp32";
  row.bytes = 4.0 * static_cast<double>(b * n);
  clock.time(row, [&] { clock.ops.find_non_finite(from, bad.view()); });
}

/// Adds the squares of random numbers in [-1, 1) to zeros, as Adagrad does.
void make_positive(KernelClock& clock, View<float> state) {
  const auto n = static_cast<int64_t>(state.size());
  const Array<char> w = clock.numbers(1, n, DType::kFloat32, "parameters");
  const Array<char> g = clock.numbers(1, n, DType::kFloat32, "gradients");
  OptimizerStep step;
  step.rule = OptimizerRule::kAdagrad;
  step.eps = 1.0f;
  clock.ops.fill_zero(state.data(), n * 4);
  clock.ops.dense_update(step, {reinterpret_cast<float*>(w.data()), state.size()},
                         {reinterpret_cast<const float*>(g.data()), state.size()}, state, {}, {});
  clock.stream.synchronize();
}

void time_update(KernelClock& clock, OptimizerRule rule) {
  const int states = traits_of(rule).state_count();
  const std::string name = fmt::format("dense {}", traits_of(rule).name);
  if (!clock.wants(name)) return;
  const auto n = static_cast<size_t>(clock.options.sizes.parameters);
  // Random values as in training: memory, divisions and roots may be faster for zeros.
  const auto numbers = [&](const char* what) {
    return clock.numbers(1, static_cast<int64_t>(n), DType::kFloat32, what);
  };
  const auto floats = [&](const Array<char>& of) {
    return View<float>(reinterpret_cast<float*>(of.data()), n);
  };
  const Array<char> w = numbers("parameters"), g = numbers("gradients"), s1 = numbers("state"),
                    s2 = numbers("state");
  make_positive(clock, floats(s1));
  make_positive(clock, floats(s2));
  OptimizerStep step;
  step.rule = rule;
  step.lr = 1e-3f;
  step.eps = 1e-8f;
  step.beta1 = 0.9f;
  step.beta2 = 0.999f;
  KernelRow row{.name = name, .shape = fmt::format("{}", n)};
  row.bytes = 4.0 * (3 + 2 * states) * static_cast<double>(n);
  clock.time(row, [&] {
    clock.ops.dense_update(step, floats(w), floats(g), states > 0 ? floats(s1) : View<float>(),
                           states > 1 ? floats(s2) : View<float>(), {});
  });
}

void time_initialisation(KernelClock& clock) {
  const KernelSizes& s = clock.options.sizes;
  if (!clock.wants("fill uniform")) return;
  const int64_t rows = s.batch * s.features;
  const Array<char> table = clock.numbers(rows, s.width, DType::kFloat32, "table");
  RowTable t;
  t.weights = table.data();
  t.rows = rows;
  t.width = t.stride = s.width;
  KernelRow row{.name = "fill uniform", .shape = fmt::format("{} x {}", rows, s.width)};
  row.bytes = 4.0 * static_cast<double>(rows * s.width);
  clock.time(row, [&] { clock.ops.fill_rows(1, 0, 0, {InitType::kUniform, 0.1f}, t); });
}

}  // namespace

void time_dense(KernelClock& clock) {
  time_loss(clock);
  time_blocks(clock);
  time_movement(clock);
  for (size_t i = 0; i < std::size(kOptimizers); ++i) {
    if (kOptimizers[i].dense()) time_update(clock, static_cast<OptimizerRule>(i));
  }
  time_initialisation(clock);
}

}  // namespace dlrm::bench
