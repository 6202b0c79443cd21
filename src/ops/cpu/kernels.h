#pragma once
#include <cstdint>
#include <string>

#include "dlrm/ops/embedding.h"
#include "dlrm/ops/interaction.h"
#include "dlrm/ops/max_bags.h"
#include "dlrm/ops/mixture.h"
#include "dlrm/ops/movement.h"
#include "dlrm/ops/parameters.h"
#include "dlrm/ops/types.h"

namespace dlrm::cpu {

/// Occurrences in a chunk. Longer runs are summed in chunks, which threads may share.
inline constexpr int64_t kRunChunk = 1024;

/// Rows whose columns are summed as a unit. The sums of these units are then added in order.
inline constexpr int64_t kSumChunk = 256;

/// SegmentedRows as plain pointers, and the chunk sums of runs longer than kRunChunk.
struct Runs {
  const int64_t* rows = nullptr;
  const int64_t* starts = nullptr;
  const Occurrence* occurrences = nullptr;
  const float* weights = nullptr;  ///< of the occurrences; null if all are 1
  const BagGradient* gradients = nullptr;
  DType type = DType::kFloat32;  ///< of the gradients
  int64_t last = 0;              ///< number of the last occurrence
  int64_t width = 0;
  const int64_t* long_runs =
      nullptr;  ///< run numbers, ascending; null if the caller sums the chunks
  const int64_t* long_first = nullptr;  ///< first chunk sum of each long run, one more at the end
  int64_t long_count = 0;
  const float* chunk_sums = nullptr;  ///< [.., width]
};

/// The gradients of a SparseUpdate, or, `by_row`, of all rows of a table.
struct RowGradients {
  const int64_t* rows = nullptr;
  const float* grads = nullptr;
  int64_t stride = 0;
  bool by_row = false;
  const float* square_sums = nullptr;
  int64_t full_width = 0;
};

/// c [m, n] = a b, or with `sum` that and what c holds. Stored are b [k, n] and a [m, k] or,
/// transposed, [k, m].
struct Product {
  MatrixView<const float> a, b;
  bool transposed_a = false;
  bool sum = false;
  MatrixView<float> c;
};

/// y = act(x wᵀ + bias), all fp32. x [b, in], w [out, in], bias [out] or null, y [b, out].
struct LayerForward {
  MatrixView<const float> x, w;
  const float* bias = nullptr;
  Activation act = Activation::kNone;
  MatrixView<float> y;
};

/// The backward of that layer: dz = dy ⊙ act'(z); dbias [out], or null, is its sum over samples.
/// The gradient of w is written to dw. If `step` is given, it is applied to w with the states s1
/// and s2 instead, and w has no gaps. dw, s1 and s2 never have gaps.
struct LayerBackward {
  MatrixView<const float> x, y, dy;
  MatrixView<float> w;
  Activation act = Activation::kNone;
  float* dw = nullptr;
  float* dbias = nullptr;
  const OptimizerStep* step = nullptr;
  float* s1 = nullptr;
  float* s2 = nullptr;
};

/// A Dropout, of which words below `bound` drop their elements.
struct DroppedRows {
  uint64_t key;
  int64_t first_sample;
  uint32_t step;
  uint32_t bound;
  float scale;
  Matrix x, y;
};

/// The rows of a layer normalisation with their statistics, and its parameters.
struct NormRows {
  Matrix x;
  const float* scale;
  const float* shift;
  float* means;
  float* inverse_spreads;
  float eps;
};

/// Vector code for one instruction set. The *_body.h files define the entries. Each one computes a
/// range of rows, bags or runs in the calling thread. None allocates. Matrices are fp32 or bf16
/// unless an entry says otherwise.
struct Kernels {
  const char* name;

  // Any type to fp32, and fp32 to any type.
  void (*to_float)(DType type, const void* src, float* dst, int64_t n);
  void (*from_float)(DType type, const float* src, void* dst, int64_t n);
  void (*copy_rows)(const BlockCopy& block);

  void (*relu)(const Matrix& y, int64_t r0, int64_t r1);
  void (*relu_backward)(const Matrix& y, const Matrix& dy, int64_t r0, int64_t r1);
  /// y = act(z) for the smooth activations. y may be z. Both have one type.
  void (*activate)(Activation act, const Matrix& z, const Matrix& y, int64_t r0, int64_t r1);
  /// dy ← dy ⊙ act'(z). `from` is z if needs_input(act), otherwise act(z).
  void (*activate_backward)(Activation act, const Matrix& from, const Matrix& dy, int64_t r0,
                            int64_t r1);
  void (*dropout_rows)(const DroppedRows& o, int64_t r0, int64_t r1);
  /// Statistics of rows, and z = scale ⊙ n + shift. z may be x.
  void (*layer_norm_rows)(const NormRows& o, const Matrix& z, int64_t r0, int64_t r1);
  /// dz ← the gradient of x.
  void (*layer_norm_backward_rows)(const NormRows& o, const Matrix& dz, int64_t r0, int64_t r1);
  /// The gradients of columns [c0, c1) of scale and shift, over all rows.
  void (*layer_norm_sums)(const NormRows& o, const Matrix& dz, int64_t c0, int64_t c1,
                          float* dscale, float* dshift);
  /// y of rows whose shares are known.
  void (*mix_rows)(const MixForward& o, int64_t r0, int64_t r1);
  void (*mix_backward_rows)(const MixBackward& o, int64_t r0, int64_t r1);
  void (*add)(const Matrix& x, const Matrix& y, int64_t r0, int64_t r1);
  void (*add_row_sums)(const Matrix& x, const Matrix& y, int64_t r0, int64_t r1);
  void (*repeat_column)(const Matrix& x, const Matrix& y, int64_t r0, int64_t r1);
  bool (*all_finite)(const Matrix& x, int64_t r0, int64_t r1);
  void (*cross_forward)(const CrossForward& o, int64_t r0, int64_t r1);
  void (*cross_backward)(const CrossBackward& o, int64_t r0, int64_t r1);
  void (*cross_input_backward)(const CrossInputBackward& o, int64_t r0, int64_t r1);
  void (*fm_forward)(const FmForward& o, int64_t r0, int64_t r1);
  void (*fm_backward)(const FmBackward& o, int64_t r0, int64_t r1);
  /// Sums of columns [c0, c1) over all rows, in chunks of kSumChunk rows.
  void (*column_sums)(const Matrix& x, int64_t c0, int64_t c1, float* sums);
  /// y[r] = act(x[r]·w + bias), for one output.
  void (*one_output)(const Matrix& x, const void* w, float bias, Activation act, const Matrix& y,
                     int64_t r0, int64_t r1);

  /// A product, and the number of floats of scratch that it needs. Null for AVX-512, where oneDNN's
  /// products are faster.
  int64_t (*product_scratch)();
  void (*product)(const Product& p, float* scratch);

  /// Small batches: outputs [o0, o1) of a layer, and the number of floats of scratch for them.
  int64_t (*layer_forward_scratch)(int64_t in);
  void (*layer_forward)(const LayerForward& layer, int64_t o0, int64_t o1, float* scratch);
  int64_t (*layer_backward_scratch)(int64_t batch, int64_t outputs);
  /// dx [b, in], if given, receives the contribution of outputs [o0, o1) to dz w.
  void (*layer_backward)(const LayerBackward& layer, int64_t o0, int64_t o1,
                         const MatrixView<float>& dx, float* scratch);

  /// The number of floats of scratch that the dot kernels need.
  int64_t (*dot_scratch)(int64_t vectors, int64_t width);
  void (*dot_forward)(const DotForward& o, int64_t r0, int64_t r1, float* scratch);
  void (*dot_backward)(const DotBackward& o, int64_t r0, int64_t r1, float* scratch);

  /// Prefetches the first rows of bags [b0, b1). pool_bags itself prefetches the following ones.
  void (*fetch_bags)(const BagGroup& group, int64_t b0, int64_t b1);
  void (*pool_bags)(const BagGroup& group, int64_t b0, int64_t b1);
  void (*pool_max_bags)(const BagGroup& group, int64_t b0, int64_t b1);
  void (*max_bag_gradients)(const MaxBagBackward& o, int64_t b0, int64_t b1);
  /// Sum over occurrences [k0, k1), at most kRunChunk of them.
  void (*sum_chunk)(const Runs& runs, int64_t k0, int64_t k1, float* sum);
  /// out[i] = gradient of run i. `scratch`: 2·width floats.
  void (*sum_runs)(const Runs& runs, int64_t i0, int64_t i1, float* scratch, float* out,
                   int64_t stride);
  /// The same with out[rows[i]] = gradient of run i.
  void (*sum_runs_by_row)(const Runs& runs, int64_t i0, int64_t i1, float* scratch, float* out,
                          int64_t stride);
  /// Like fetch_bags, for update_runs.
  void (*fetch_runs)(const OptimizerStep& step, const RowTable& table, const Runs& runs, int64_t i0,
                     int64_t i1);
  /// `scratch`: 3·width floats.
  void (*update_runs)(const OptimizerStep& step, const RowTable& table, const Runs& runs,
                      int64_t i0, int64_t i1, float* scratch);
  /// RowSquareSums of rows [i0, i1). `scratch`: width floats.
  void (*row_square_sums)(const RowSquareSums& o, int64_t i0, int64_t i1, float* scratch);
  /// `scratch`: width floats.
  void (*update_rows)(const OptimizerStep& step, const RowTable& table, const RowGradients& grads,
                      int64_t i0, int64_t i1, float* scratch);
  /// Tensorwise rules: updates the state, and writes the sums of the squares of w and of the
  /// direction.
  void (*update_state)(const OptimizerStep& step, const float* w, const float* g, float* s1,
                       float* s2, int64_t n, double (&squares)[2]);
  /// Tensorwise rules: the factor of the direction, from the sums over the whole tensor.
  float (*tensor_factor)(const OptimizerStep& step, const double (&squares)[2]);
  /// `factor`: of a tensorwise rule, whose state is already updated.
  void (*update_dense)(const OptimizerStep& step, float factor, float* w, const float* g, float* s1,
                       float* s2, BFloat16* copy, int64_t n);
  /// Rows [r0, r1) of the table. `factor`: normal_factor() of the scale.
  void (*initial_rows)(const FillRows& o, float factor, int64_t r0, int64_t r1);
};

const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

/// The kernels of the instruction set `isa`, or of vector_isa() if `isa` is "".
/// Throws usage_error if the set is unknown or missing.
const Kernels& choose_kernels(const std::string& isa);

}  // namespace dlrm::cpu
