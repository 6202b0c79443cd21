#include <algorithm>

#include "cpu/cpu_ops.h"
#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

constexpr int64_t kLinearGrain = 16384;  // elements per thread, for work limited by memory
constexpr int64_t kSmoothCost = 4;       // cost of an element of a smooth activation

// Up to these sizes our own layers are faster than products and the additional passes that these
// need (measured).
constexpr int64_t kForwardSamples = 16;
constexpr int64_t kBackwardSamples = 128;
constexpr int64_t kForwardInputs = 64;
constexpr int64_t kBackwardOutputs = 8;

bool is_smooth(Activation act) { return act != Activation::kNone && act != Activation::kRelu; }

bool small_forward_serves(const Matrix& x, const Matrix& w, const Matrix& added, const Matrix& y) {
  return !added.data && x.type == DType::kFloat32 && y.type == DType::kFloat32 &&
         x.rows <= kForwardSamples && x.cols >= kForwardInputs && w.rows >= kBackwardOutputs;
}

bool small_backward_serves(const LinearBackward& l) {
  return !l.added.data && l.x.type == DType::kFloat32 && l.dy.type == DType::kFloat32 &&
         l.dw.stride == l.dw.cols && l.x.rows > 0 && l.x.cols > 0 && l.x.rows <= kBackwardSamples &&
         l.w.rows >= kBackwardOutputs;
}

/// A layer's outputs, divided among threads in the same way in all operations of the layer.
struct OutputParts {
  static constexpr int64_t kTogether = 8;  // outputs that kernels process as a unit
  int64_t outputs;
  Parts parts;

  OutputParts(int threads, int64_t batch, const Matrix& w)
      : outputs(w.rows),
        parts(parts_for(threads, batch * w.rows * w.cols, 1 << 17).at_most(blocks())) {}
  int64_t blocks() const { return (outputs + kTogether - 1) / kTogether; }
  Range operator[](int part) const {
    const Range range = part_of(blocks(), part, parts);
    return {range.begin * kTogether, std::min(outputs, range.end * kTogether)};
  }
};

}  // namespace

void CpuOps::run(const LinearForward& o) {
  if (!is_smooth(o.act)) return layer_outputs(o.x, o.w, o.bias, o.added, o.act, o.y);
  const Matrix sums = needs_input(o.act) ? o.z : o.y;
  layer_outputs(o.x, o.w, o.bias, {}, Activation::kNone, sums);
  parallel_ranges(threads_, o.y.rows, o.y.cols * kSmoothCost, kLinearGrain,
                  [&](int64_t r0, int64_t r1) { kernels_.activate(o.act, sums, o.y, r0, r1); });
}

void CpuOps::layer_outputs(Matrix x, Matrix w, View<const float> bias, Matrix added, Activation act,
                           Matrix y) {
  if (y.rows == 0 || y.cols == 0) return;
  if (!added.data && (y.cols == 1 || x.cols == 0)) {
    parallel_ranges(threads_, y.rows, x.cols, kLinearGrain, [&](int64_t r0, int64_t r1) {
      for (int64_t o = 0; o < y.cols; ++o) {
        const float b = bias.empty() ? 0.0f : bias[static_cast<size_t>(o)];
        kernels_.one_output(x, w.element(o, 0), b, act, y.columns(o, 1), r0, r1);
      }
    });
    return;
  }
  const float* biases = bias.empty() ? nullptr : bias.data();
  if (small_forward_serves(x, w, added, y)) {
    const LayerForward layer{x.f32(), w.f32(), biases, act, y.f32()};
    const OutputParts divided(threads_, x.rows, w);
    const ThreadScratch scratch = thread_scratch(kernels_.layer_forward_scratch(x.cols));
    return parallel(divided.parts, [&](int part) {
      const Range outputs = divided[part];
      kernels_.layer_forward(layer, outputs.begin, outputs.end, scratch(part));
    });
  }
  products_.forward(x, w, biases, added, y);
  if (act == Activation::kNone) return;
  parallel_ranges(threads_, y.rows, y.cols, kLinearGrain,
                  [&](int64_t r0, int64_t r1) { kernels_.relu(y, r0, r1); });
}

void CpuOps::run(const LinearBackwardInput& o) {
  const auto& [dz, w, dx, added] = o;
  if (dx.rows == 0 || dx.cols == 0) return;
  if (dz.cols == 0 && added.data) return convert(added, dx);
  if (dz.cols == 0) {
    for (int64_t r = 0; r < dx.rows; ++r) {
      fill_zero(dx.element(r, 0), dx.cols * static_cast<int64_t>(size_of(dx.type)));
    }
    return;
  }
  products_.backward_input(dz, w, added, dx);
}

void CpuOps::run(const LinearBackwardWeight& o) {
  const auto& [dz, x, dw, dbias] = o;
  if (dz.rows == 0) {
    for (int64_t r = 0; r < dw.rows; ++r) std::fill_n(dw.row(r), dw.cols, 0.0f);
    std::fill(dbias.begin(), dbias.end(), 0.0f);
    return;
  }
  if (dw.rows > 0 && dw.cols > 0) products_.backward_weight(dz, x, dw);
  if (!dbias.empty()) column_sums(dz, dbias);
}

/// Threads take chunks of rows and blocks of columns. They share no cache line of x.
void CpuOps::column_sums(const Matrix& x, View<float> sums) {
  constexpr int64_t kBlock = 32;  // columns
  const int64_t blocks = (x.cols + kBlock - 1) / kBlock;
  const int64_t chunks = (x.rows + kSumChunk - 1) / kSumChunk;
  const auto columns = [&](int64_t b) {
    return Range{b * kBlock, std::min((b + 1) * kBlock, x.cols)};
  };
  const int64_t work = std::max<int64_t>(x.cols, 16) * x.rows;  // a row has a cache line at least
  const Parts parts = parts_for(threads_, work, kLinearGrain).at_most(blocks * chunks);
  if (parts <= blocks || chunks == 1) {
    return parallel_ranges(threads_, blocks, kBlock * x.rows, kLinearGrain,
                           [&](int64_t b0, int64_t b1) {
                             kernels_.column_sums(x, b0 * kBlock, columns(b1 - 1).end, sums.data());
                           });
  }
  chunk_sums_.reserve(static_cast<size_t>(chunks * x.cols));
  const auto chunk_at = [&](int64_t c) { return chunk_sums_.data() + c * x.cols; };
  parallel_then(
      parts,
      [&](int part) {
        const Range mine = part_of(blocks * chunks, part, parts);
        for (int64_t k = mine.begin; k < mine.end; ++k) {
          const int64_t r0 = k / blocks * kSumChunk;
          const Range c = columns(k % blocks);
          kernels_.column_sums(x.row_range(r0, std::min(kSumChunk, x.rows - r0)), c.begin, c.end,
                               chunk_at(k / blocks));
        }
      },
      [&](int part) {
        const Range mine = part_of(x.cols, part, parts);
        std::copy_n(chunk_at(0) + mine.begin, mine.size(), sums.data() + mine.begin);
        for (int64_t c = 1; c < chunks; ++c) {
          for (int64_t i = mine.begin; i < mine.end; ++i)
            sums[static_cast<size_t>(i)] += chunk_at(c)[i];
        }
      });
}

void CpuOps::run(const ActivationBackward& o) {
  const auto& [act, y, z, dy] = o;
  if (act == Activation::kNone) return;
  if (act == Activation::kRelu) {
    return parallel_ranges(threads_, dy.rows, dy.cols, kLinearGrain,
                           [&](int64_t r0, int64_t r1) { kernels_.relu_backward(y, dy, r0, r1); });
  }
  const Matrix& from = needs_input(act) ? z : y;
  parallel_ranges(
      threads_, dy.rows, dy.cols * kSmoothCost, kLinearGrain,
      [&](int64_t r0, int64_t r1) { kernels_.activate_backward(act, from, dy, r0, r1); });
}

void CpuOps::run(const LinearBackward& layer) {
  if (!small_backward_serves(layer)) return Ops::run(layer);
  small_backward(layer, {}, nullptr);
}

void CpuOps::run(const LinearBackwardUpdate& o) {
  const auto& [step, layer, weight, bias] = o;
  const bool tensorwise = traits_of(step.rule).tensorwise();  // needs the whole gradient first
  if (!small_backward_serves(layer) || tensorwise || !weight.copy.empty() || skips_update(step)) {
    return Ops::run(o);
  }
  LayerBackward update;
  update.step = &step;
  update.s1 = weight.state1.data();
  update.s2 = weight.state2.data();
  small_backward(layer, update, &bias);
}

void CpuOps::small_backward(const LinearBackward& l, LayerBackward update,
                            const DenseTensor* bias) {
  LayerBackward layer = update;
  layer.x = l.x.f32();
  layer.y = l.y.f32();
  layer.dy = l.dy.f32();
  layer.w = l.w.f32();
  if (is_smooth(l.act)) {
    activation_backward(l.act, l.y, l.z, l.dy);
  } else {
    layer.act = l.act;
  }
  layer.dw = l.dw.data;
  layer.dbias = l.dbias.empty() ? nullptr : l.dbias.data();
  const OutputParts divided(threads_, l.x.rows, l.w);
  const int64_t batch = l.x.rows, in = l.x.cols;
  const int64_t own =
      kernels_.layer_backward_scratch(batch, divided[0].size() + OutputParts::kTogether);
  const int64_t partial = l.dx.data ? batch * in : 0;
  const ThreadScratch scratch = thread_scratch(own + partial);
  const auto dx_of = [&](int part) {  // the first part writes dx itself
    if (!l.dx.data) return MatrixView<float>();
    return part == 0 ? l.dx.f32() : MatrixView<float>(scratch(part) + own, batch, in);
  };
  const auto compute = [&](int part) {
    const Range outputs = divided[part];
    kernels_.layer_backward(layer, outputs.begin, outputs.end, dx_of(part), scratch(part));
    if (!bias || l.dbias.empty()) return;
    const auto first = static_cast<size_t>(outputs.begin), n = static_cast<size_t>(outputs.size());
    const auto rest = [&](View<float> v) { return v.empty() ? nullptr : v.data() + first; };
    kernels_.update_dense(*layer.step, 0, bias->values.data() + first, layer.dbias + first,
                          rest(bias->state1), rest(bias->state2), nullptr, static_cast<int64_t>(n));
  };
  if (partial == 0) return parallel(divided.parts, compute);
  parallel_then(divided.parts, compute, [&](int part) {
    const Range samples = part_of(batch, part, divided.parts);
    for (int other = 1; other < divided.parts; ++other) {
      kernels_.add(dx_of(other), dx_of(0), samples.begin, samples.end);
    }
  });
}

}  // namespace dlrm::cpu
