#pragma once
// Linear layers for batches so small that a library's preparations cost more than they save. See
// vec.h for the rules of these files. A thread has the same range of outputs in forward and
// backward, so that its rows of the weights stay in its cache.
#include "cpu/kernels.h"
#include "cpu/update_body.h"
#include "cpu/vec.h"

namespace dlrm::cpu {
namespace {

// ---- Forward: inner products along the inputs. A tile's sums stay in registers. They are more
// than the multiplications that a core has under way, and leave registers for a sample and weights.

constexpr int kTileOutputs = kLanes == 16 ? 4 : 3;
constexpr int kTileSamples = 4;
constexpr int kTileSums = kTileSamples * kTileOutputs;
constexpr int64_t kSampleBytes = 16384;  // samples processed as a unit: half of a first-level cache

inline int64_t padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

/// Samples of `in` inputs that are processed as a unit: whole tiles.
inline int64_t samples_together(int64_t in) {
  const int64_t fit = kSampleBytes / (4 * padded(in)) / kTileSamples * kTileSamples;
  return fit > kTileSamples ? fit : kTileSamples;
}

int64_t layer_forward_scratch(int64_t in) { return samples_together(in) * padded(in); }

/// Copies columns [c, c + n) of rows [r0, r1) of m to `to`, with `stride` between rows. Fills the
/// rest with zeros.
inline void pack_rows(const MatrixView<const float>& m, int64_t r0, int64_t r1, int64_t c,
                      int64_t n, int64_t stride, float* to) {
  for (int64_t r = r0; r < r1; ++r, to += stride) {
    const float* from = m.data + r * m.stride + c;
    for (int64_t i = 0; i < n; i += kLanes) {
      store<kLanes>(to + i, load_up_to(from + i, n - i));
    }
  }
}

/// y[s, o] of kTileSamples packed samples and kTileOutputs rows of w, sample by sample, to `to`,
/// which has room for whole vectors.
inline void forward_tile(const float* x, int64_t stride, const float* const* w, int64_t in,
                         float* to) {
  Floats<kLanes> sum[kTileSums] = {};
  const auto add = [&](int64_t i, auto load_weights) {
    Floats<kLanes> left[kTileOutputs];
    for (int o = 0; o < kTileOutputs; ++o) left[o] = load_weights(w[o] + i);
    for (int s = 0; s < kTileSamples; ++s) {
      const Floats<kLanes> right = load<kLanes>(x + s * stride + i);
      for (int o = 0; o < kTileOutputs; ++o) {
        Floats<kLanes>& of = sum[s * kTileOutputs + o];
        of = multiply_add<kLanes>(left[o], right, of);
      }
    }
  };
  int64_t i = 0;
  for (; i + kLanes <= in; i += kLanes) add(i, [](const float* p) { return load<kLanes>(p); });
  if (i < in) add(i, [&](const float* p) { return load_partial(p, in - i); });
  for (int first = 0; first < kTileSums; first += kLanes) {
    Floats<kLanes> some[kLanes] = {};
    for (int k = 0; k < kLanes && first + k < kTileSums; ++k) some[k] = sum[first + k];
    store<kLanes>(to + first, lane_sums<kLanes>(some));
  }
}

/// Adds the bias to a tile's sums, applies ReLU and stores the outputs.
struct TileOutput {
  MatrixView<float> y;
  const float* bias;
  bool relu;

  void operator()(const float* sums, int64_t sample, int64_t samples, int64_t o,
                  int64_t outputs) const {
    for (int64_t s = 0; s < samples; ++s) {
      float* to = y.data + (sample + s) * y.stride + o;
      for (int64_t k = 0; k < outputs; ++k) {
        const float z = sums[s * kTileOutputs + k] + (bias ? bias[o + k] : 0.0f);
        to[k] = relu && z < 0.0f ? 0.0f : z;
      }
    }
  }
};

void layer_forward(const LayerForward& layer, int64_t o0, int64_t o1, float* scratch) {
  const int64_t in = layer.x.cols, batch = layer.x.rows, stride = padded(in);
  const int64_t together = samples_together(in);
  const TileOutput output{layer.y, layer.bias, layer.act == Activation::kRelu};
  for (int64_t first = 0; first < batch; first += together) {
    const int64_t samples = smaller(together, batch - first);
    pack_rows(layer.x, first, first + samples, 0, in, stride, scratch);
    for (int64_t o = o0; o < o1; o += kTileOutputs) {
      const int64_t outputs = smaller(kTileOutputs, o1 - o);
      const float* w[kTileOutputs];
      for (int64_t k = 0; k < kTileOutputs; ++k) {
        w[k] = layer.w.data + (o + smaller(k, outputs - 1)) * layer.w.stride;
      }
      for (int64_t s = 0; s < samples; s += kTileSamples) {
        float sums[(kTileSums + kLanes - 1) / kLanes * kLanes];
        forward_tile(scratch + s * stride, stride, w, in, sums);
        output(sums, first + s, smaller(kTileSamples, samples - s), o, outputs);
      }
    }
  }
}

// ---- Backward: loads each vector of the weights once, adds its part of dx, computes its gradient
// and, during a fused update, its new value.

// Each of these outputs has a vector of weights and one of its gradient in registers.
constexpr int kBackwardRows = kLanes == 16 ? 8 : 6;
constexpr int kGradientStride = 8;  // floats from sample to sample of a block of dz

/// Inputs processed as a unit: x and dx of a batch fit the first-level cache.
inline int64_t inputs_together(int64_t batch) {
  return batch <= 32 ? 4 * kLanes : batch <= 64 ? 2 * kLanes : kLanes;
}

int64_t layer_backward_scratch(int64_t batch, int64_t outputs) {
  const int64_t blocks = (outputs + kBackwardRows - 1) / kBackwardRows;
  return batch * (blocks * kGradientStride + 2 * inputs_together(batch));
}

/// dz = dy ⊙ act'(z) of outputs [o0, o1), in blocks of kBackwardRows outputs. Each block is
/// ordered by samples. Zeros fill the last block.
inline void pack_gradient(const LayerBackward& layer, int64_t o0, int64_t o1, float* dz) {
  constexpr int R = kBackwardRows, S = kGradientStride;
  const int64_t batch = layer.dy.rows;
  const bool relu = layer.act == Activation::kRelu;
  for (int64_t o = o0; o < o1; o += R, dz += S * batch) {
    const int64_t outputs = smaller(R, o1 - o);
    for (int64_t s = 0; s < batch; ++s) {
      const float* dy = layer.dy.data + s * layer.dy.stride + o;
      const float* y = layer.y.data + s * layer.y.stride + o;
      float* to = dz + s * S;
      if (o1 - o >= S) {  // lanes beyond R have no use
        const Floats<S> d = load<S>(dy);
        Floats<S> passed = d;
        if (relu) passed = load<S>(y) == 0.0f ? Floats<S>{} : d;
        store<S>(to, passed);
        continue;
      }
      for (int64_t k = 0; k < S; ++k) {
        const bool passes = k < outputs && (!relu || y[k] != 0.0f);
        to[k] = passes ? dy[k] : 0.0f;
      }
    }
  }
}

/// Updates up to a vector of weights with their gradients and states.
template <Rule R>
inline void update_vector(const RuleConstants& constants, float* w, Floats<kLanes> old,
                          Floats<kLanes> g, float* s1, float* s2, int64_t left,
                          FiniteCheck& check) {
  if (left >= kLanes) {
    return store<kLanes>(w, new_dense_weights<R, kLanes>(constants, old, g, s1, s2, 0, check));
  }
  float first[kLanes] = {}, second[kLanes] = {};
  if constexpr (kState1<R>) store<kLanes>(first, load_partial(s1, left));
  if constexpr (kState2<R>) store<kLanes>(second, load_partial(s2, left));
  store_partial(w, new_dense_weights<R, kLanes>(constants, old, g, first, second, 0, check), left);
  if constexpr (kState1<R>) store_partial(s1, load<kLanes>(first), left);
  if constexpr (kState2<R>) store_partial(s2, load<kLanes>(second), left);
}

/// Stores the gradient.
struct KeepGradient {
  const LayerBackward& layer;
  void operator()(int64_t o, int64_t i, int64_t left, Floats<kLanes>, Floats<kLanes> g) const {
    store_up_to(layer.dw + o * layer.x.cols + i, g, left);
  }
};

/// Applies the gradient.
template <Rule R>
struct ApplyGradient {
  const LayerBackward& layer;
  RuleConstants constants;
  FiniteCheck check;
  void operator()(int64_t o, int64_t i, int64_t left, Floats<kLanes> w, Floats<kLanes> g) {
    const int64_t at = o * layer.x.cols + i;
    update_vector<R>(constants, layer.w.data + at, w, g, first_state<R>(layer.s1, at),
                     second_state<R>(layer.s2, at), left, check);
  }
};

/// One vector of inputs of up to kBackwardRows outputs, for all samples. `stride` separates the
/// samples of x and of dx.
template <bool HasDx>
inline void backward_tile(const Floats<kLanes>* w, const float* dz, int64_t batch, const float* x,
                          float* dx, int64_t stride, Floats<kLanes>* g) {
  constexpr int R = kBackwardRows;
  Floats<kLanes> weights[R], sum[R] = {};
  for (int k = 0; k < R; ++k) weights[k] = w[k];
  for (int64_t s = 0; s < batch; ++s, x += stride, dx += stride, dz += kGradientStride) {
    const Floats<kLanes> input = load<kLanes>(x);
    Floats<kLanes> through{};
    if constexpr (HasDx) through = load<kLanes>(dx);
    for (int k = 0; k < R; ++k) {
      const Floats<kLanes> d = broadcast<kLanes>(dz[k]);
      sum[k] = multiply_add<kLanes>(d, input, sum[k]);
      if constexpr (HasDx) through = multiply_add<kLanes>(d, weights[k], through);
    }
    if constexpr (HasDx) store<kLanes>(dx, through);
  }
  for (int k = 0; k < R; ++k) g[k] = sum[k];
}

/// Outputs [o0, o1) of one layer. If HasDx, `dx` receives their part of dx. Returns what
/// `given` became. Not inline: in a larger function GCC lacks registers in the loop of
/// backward_tile().
template <bool HasDx, class Finish>
[[gnu::noinline]] Finish backward_outputs(const LayerBackward& layer, const Finish& given,
                                          int64_t o0, int64_t o1, const MatrixView<float>& dx,
                                          const float* dz, float* space) {
  Finish finish = given;  // a local object stays in registers
  constexpr int R = kBackwardRows;
  const int64_t batch = layer.x.rows, in = layer.x.cols, together = inputs_together(batch);
  float* x = space;
  float* sums = space + batch * together;
  for (int64_t i0 = 0; i0 < in; i0 += together) {
    const int64_t inputs = smaller(together, in - i0);
    pack_rows(layer.x, 0, batch, i0, inputs, together, x);
    for (int64_t i = 0; HasDx && i < batch * together; i += kLanes) {
      store<kLanes>(sums + i, Floats<kLanes>{});
    }
    for (int64_t o = o0; o < o1; o += R) {
      const int64_t rows = smaller(R, o1 - o);
      const float* block = dz + (o - o0) / R * kGradientStride * batch;
      const float* weights = layer.w.data + o * layer.w.stride + i0;
      const int64_t whole = rows == R ? inputs / kLanes * kLanes : 0;
      for (int64_t i = 0; i < whole; i += kLanes) {
        Floats<kLanes> w[R], g[R];
        for (int k = 0; k < R; ++k) w[k] = load<kLanes>(weights + k * layer.w.stride + i);
        backward_tile<HasDx>(w, block, batch, x + i, sums + i, together, g);
#pragma GCC unroll 16
        for (int k = 0; k < R; ++k) finish(o + k, i0 + i, kLanes, w[k], g[k]);
      }
      for (int64_t i = whole; i < inputs; i += kLanes) {
        Floats<kLanes> w[R], g[R];
        for (int k = 0; k < R; ++k) {
          w[k] = load_up_to(weights + smaller(k, rows - 1) * layer.w.stride + i, inputs - i);
        }
        backward_tile<HasDx>(w, block, batch, x + i, sums + i, together, g);
        for (int k = 0; k < rows; ++k) finish(o + k, i0 + i, inputs - i, w[k], g[k]);
      }
    }
    if constexpr (HasDx) {
      for (int64_t s = 0; s < batch; ++s) {
        float* to = dx.data + s * dx.stride + i0;
        for (int64_t i = 0; i < inputs; i += kLanes) {
          store_up_to(to + i, load<kLanes>(sums + s * together + i), inputs - i);
        }
      }
    }
  }
  return Finish(finish);
}

/// Sums dz over samples, in order, into layer.dbias.
inline void sum_gradient(const LayerBackward& layer, int64_t o0, int64_t o1, const float* dz) {
  constexpr int R = kBackwardRows, S = kGradientStride;
  const int64_t batch = layer.dy.rows;
  for (int64_t o = o0; o < o1; o += R, dz += S * batch) {
    Floats<S> sum{};
    for (int64_t s = 0; s < batch; ++s) sum = sum + load<S>(dz + s * S);
    float lanes[S];
    store<S>(lanes, sum);
    for (int64_t k = 0; k < smaller(R, o1 - o); ++k) layer.dbias[o + k] = lanes[k];
  }
}

template <class Finish>
inline Finish backward_with(const LayerBackward& layer, const Finish& finish, int64_t o0,
                            int64_t o1, const MatrixView<float>& dx, const float* dz,
                            float* space) {
  if (dx.data) return backward_outputs<true>(layer, finish, o0, o1, dx, dz, space);
  return backward_outputs<false>(layer, finish, o0, o1, dx, dz, space);
}

void layer_backward(const LayerBackward& layer, int64_t o0, int64_t o1, const MatrixView<float>& dx,
                    float* scratch) {
  const int64_t batch = layer.dy.rows;
  const int64_t blocks = (o1 - o0 + kBackwardRows - 1) / kBackwardRows;
  float* space = scratch + blocks * kGradientStride * batch;
  pack_gradient(layer, o0, o1, scratch);
  if (layer.dbias) sum_gradient(layer, o0, o1, scratch);
  if (!layer.step) {
    backward_with(layer, KeepGradient{layer}, o0, o1, dx, scratch, space);
    return;
  }
  with_rule<kDense>(layer.step->rule, [&]<Rule R>() {
    if constexpr (!kTensorwiseRule<R>) {
      const ApplyGradient<R> apply{layer, constants_of(*layer.step), {}};
      backward_with(layer, apply, o0, o1, dx, scratch, space).check.report(*layer.step);
    }
  });
}

}  // namespace
}  // namespace dlrm::cpu
