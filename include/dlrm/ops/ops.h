#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlrm/core/dtype.h"
#include "dlrm/core/log.h"
#include "dlrm/core/view.h"
#include "dlrm/device/device.h"
#include "dlrm/ops/interaction.h"
#include "dlrm/ops/types.h"

/// Every operation. X(Operation) is expanded for each: once in Ops, which declares them, and once
/// in each execution, which overrides them.
#define DLRM_OPERATIONS(X) DLRM_INTERACTION_OPERATIONS(X)

/// For the class of an execution.
#define DLRM_OVERRIDE(Operation) void run(const Operation&) override;

namespace dlrm {

/// Everything that a device must compute, each operation by shapes and formula. b is the local
/// batch, B the global one. Operations are queued in order on the stream that the object was made
/// with; outputs are written, not accumulated, unless said. Views must not overlap unless said. A
/// size of zero does nothing. Nothing here checks ids: the router has.
///
/// Where a Matrix may be fp32 or bf16, products take the stored values and accumulate in fp32 (fp64
/// in the reference), and results are rounded once to the output's type.
class Ops {
 public:
  virtual ~Ops() = default;

  /// run(operation) for each operation of the list.
#define DLRM_RUN(Operation) virtual void run(const Operation&) = 0;
  DLRM_OPERATIONS(DLRM_RUN)
#undef DLRM_RUN

  /// "reference", "cpu", ... and the instruction set chosen.
  virtual std::string name() const = 0;
  /// Number of threads this object computes with.
  virtual int threads() const = 0;
  /// What was chosen by timing (a library's algorithms), as bytes for a checkpoint, and taking such
  /// choices up again before the first operation, so that a resumed run sums in the same order.
  /// Choices made by another library or on another GPU are left aside.
  virtual std::vector<std::byte> tuned_algorithms() const { return {}; }
  virtual void restore_tuned_algorithms(View<const std::byte>) {}

  // ---- Linear layers
  // -------------------------------------------------------------------------------

  /// Another execution of the same kind, for a second stream of the device; null where there is no
  /// use for one. Operations that one of the two is given wait for none of the other's.
  virtual std::unique_ptr<Ops> make_for_stream(Stream&) const { return nullptr; }

  /// y = act(x wᵀ + bias). x [b, in], w [out, in], bias [out] fp32, y [b, out]; types of x, w, y
  /// alike. An empty bias adds nothing; where y is bf16 it may be rounded to bf16 first. Where
  /// needs_input(act), z [b, out], of y's type, receives x wᵀ + bias, else it is not touched and
  /// z.data may be null. act is taken of z before or after its rounding to that type. On a GPU
  /// relu with a bias may make 0 of a NaN; elsewhere a NaN stays one.
  virtual void linear_forward(Matrix x, Matrix w, View<const float> bias, Act act, Matrix y,
                              Matrix z) = 0;
  /// dx = dz w. dz [b, out], w [out, in], dx [b, in].
  virtual void linear_backward_input(Matrix dz, Matrix w, Matrix dx) = 0;
  /// dw = dzᵀ x, dbias = column sums of dz. dz [b, out], x [b, in], dw [out, in] fp32, dbias [out]
  /// fp32. With b = 0 writes zeros. An empty dbias is left out.
  virtual void linear_backward_weight(Matrix dz, Matrix x, MatrixView<float> dw,
                                      View<float> dbias) = 0;
  /// dy ← dy ⊙ act'(z), from z where needs_input(act), else from y = act(z) (relu: zero where y is
  /// 0); the other of the two is not read. dy, y, z [b, n].
  virtual void activation_backward(Act act, Matrix y, Matrix z, Matrix dy) = 0;

  /// Whether layer_forward writes masks and linear_backward takes the last members of
  /// LinearGradients. Elsewhere a layer's operations are called one by one.
  virtual bool fuses_layers() const { return false; }
  /// linear_forward. Where a mask is asked for, mask.written says whether it was written.
  virtual void layer_forward(const LayerForward& layer);

  /// A layer's backward in one: dz = dy ⊙ act'(z); dx = dz w; dw = dzᵀ x; dbias = column sums of
  /// dz.
  virtual void linear_backward(const LinearGradients& layer);
  /// linear_backward, then dense_update of the weight [out, in] and the bias [out] (empty where
  /// dbias is), with bitwise the results of the three. layer.w views weight.values or weight.copy;
  /// dw and dbias are undefined afterwards.
  virtual void linear_backward_update(const OptimizerStep& step, const LinearGradients& layer,
                                      const DenseTensor& weight, const DenseTensor& bias);

  // ---- Interaction
  // ---------------------------------------------------------------------------------

  // Described in interaction.h.
  void dot_forward(Matrix x, MatrixView<const float> e, Matrix z) { run(DotForward{x, e, z}); }
  void dot_backward(Matrix x, MatrixView<const float> e, Matrix dz, Matrix dx,
                    MatrixView<float> de) {
    run(DotBackward{x, e, dz, dx, de});
  }
  void average_pool_forward(MatrixView<const float> e, int64_t window, Matrix y) {
    run(AveragePoolForward{e, window, y});
  }
  void average_pool_backward(Matrix dy, int64_t window, MatrixView<float> de) {
    run(AveragePoolBackward{dy, window, de});
  }
  void cross_forward(Matrix x0, Matrix u, Matrix x, Matrix y) { run(CrossForward{x0, u, x, y}); }
  void cross_backward(Matrix x0, Matrix u, Matrix dy, Matrix du, Matrix dx0) {
    run(CrossBackward{x0, u, dy, du, dx0, true});
  }
  void first_cross_backward(Matrix x0, Matrix u, Matrix dy, Matrix du, Matrix dx0) {
    run(CrossBackward{x0, u, dy, du, dx0, false});
  }

  // ---- Loss
  // ----------------------------------------------------------------------------------------

  /// Binary cross-entropy with logits, in fp32: loss[0] = Σ max(l,0) - l·y + log(1+exp(-|l|)) (a
  /// sum, in fp64, fixed order); dlogits = (σ(l) - y)·scale. logits, dlogits [b, 1]; labels [b].
  virtual void bce_with_logits(Matrix logits, View<const float> labels, float scale,
                               View<double> loss, Matrix dlogits) = 0;
  /// p = σ(l), fp32. logits [b, 1].
  virtual void sigmoid(Matrix logits, View<float> p) = 0;

  // ---- Embedding
  // -----------------------------------------------------------------------------------

  /// For every group and bag: pooled[bag] = scale[bag] · Σ rows[ids] (scale absent: 1); zeros for
  /// an empty bag. Reads nnz·width elements, writes bags·width: memory-bound. Sums in fp32 in the
  /// order of ids.
  virtual void embedding_bag_forward(View<const BagGroup> groups) = 0;

  /// Ids outside their table become 0, so that nothing reads beside it, and the first of them (by
  /// list, bag, position) is reported unless one was before: flag[0] = 1, where = {feature, sample,
  /// id}. With none, neither is touched.
  virtual void check_ids(View<const IdCheck> lists, View<float> flag, View<int64_t> where);

  /// For each list: to[i] = from[i], or i · step.
  virtual void unpack(View<const PackedList> lists);

  /// For each filter: the ids of its parts that lie in its rows, in their order and less first_row,
  /// in `ids` from the start, and where each bag begins among them, the first at 0.
  virtual void filter_ids(View<const IdFilter> filters);

  /// Groups the occurrences of equal rows among `groups` (features of one table shard, ids alike in
  /// range [0, rows)): runs.rows[0..count) unique rows ascending, occurrences of run i at
  /// [starts[i], starts[i+1]) ordered by group, then bag, then position. Capacity of the views:
  /// total number of ids, and one more for starts.
  virtual void group_rows(View<const IdGroup> groups, int64_t rows, SegmentedRows runs) = 0;

  /// grads[i] = Σ over the occurrences of run i of scale · gradient of (group, bag), in occurrence
  /// order, in fp32; very long runs in fixed chunks. grads [count, width].
  virtual void embedding_bag_backward(SegmentedRows runs, View<const BagGradient> gradients,
                                      MatrixView<float> grads) = 0;

  /// sums[i] = Σ_c grads[i, c]² for i < runs.count. For row-wise Adagrad over column shards.
  virtual void row_square_sums(View<const int64_t> count, MatrixView<const float> grads,
                               View<float> sums) = 0;

  /// One optimizer update of each row rows[i], i < count[0], all different, with gradient grads[i]
  /// (grads[rows[i]] with `by_row`); bf16 rows are rounded stochastically (RowTable). Row-wise
  /// Adagrad takes `square_sums`[i] / full_width in place of its own mean where square_sums is not
  /// empty.
  virtual void sparse_update(const OptimizerStep& step, const RowTable& table,
                             View<const int64_t> rows, View<const int64_t> count,
                             MatrixView<const float> grads, bool by_row,
                             View<const float> square_sums, int64_t full_width) = 0;

  /// embedding_bag_backward and sparse_update in one pass, with bitwise the results of the two.
  virtual void embedding_bag_update(const OptimizerStep& step, const RowTable& table,
                                    SegmentedRows runs, View<const BagGradient> gradients) = 0;

  /// group_rows of every shard; `progress` is called between shards where that is worth it.
  virtual void group_rows_of(View<const ShardUpdate> shards, const std::function<void()>& progress);
  /// embedding_bag_update of every shard, likewise.
  virtual void embedding_bag_updates(const OptimizerStep& step, View<const ShardUpdate> shards,
                                     const std::function<void()>& progress);

  /// dense [rows, width] ← 0, then dense[rows[i]] = grads[i]; touched[rows[i]] = 1, else 0. rows
  /// ascend. Small data-parallel tables.
  virtual void scatter_rows(View<const int64_t> rows, View<const int64_t> count,
                            MatrixView<const float> grads, MatrixView<float> dense,
                            View<float> touched) = 0;
  /// rows = the indices i, ascending, where touched[i] > 0; count[0] = how many.
  virtual void touched_rows(View<const float> touched, View<int64_t> rows, View<int64_t> count) = 0;

  // ---- Data movement
  // -------------------------------------------------------------------------------

  /// Each block in turn: dst[r, c] = scale[r]·src[r, c], or += with `accumulate`, converting types
  /// (through fp32, rounded once). Where a side lists its rows, r stands for the row listed there
  /// (scale[r] stays the r-th). Blocks that write the same place are applied in list order.
  virtual void copy_blocks(View<const BlockCopy> blocks) = 0;
  /// y = x converted. x, y [b, n], types as they are.
  virtual void convert(Matrix x, Matrix y) = 0;
  /// y += x.
  virtual void add(Matrix x, Matrix y) = 0;
  virtual void fill_zero(void* data, int64_t bytes) = 0;
  /// bad[0] = 1 where any element is NaN or infinite, else unchanged.
  virtual void find_non_finite(Matrix x, View<float> bad) = 0;

  // ---- Parameters
  // ----------------------------------------------------------------------------------

  /// One dense optimizer update of w [n] by g [n] with state s1, s2 ([n], or empty where the rule
  /// has none); copy (optional, bf16 [n]) receives the rounded new weights. Of a tensorwise rule w
  /// must be one whole tensor; otherwise it may be any stretch of several.
  virtual void dense_update(const OptimizerStep& step, View<float> w, View<const float> g,
                            View<float> s1, View<float> s2, View<BFloat16> copy) = 0;
  /// table[r, c] = U(-bound, bound) at global (first_row + r, first_column + c) of `key`
  /// (uniform_row).
  virtual void fill_uniform(uint64_t key, int64_t first_row, int64_t first_column, float bound,
                            const RowTable& table) = 0;
};

/// Plain fp64 loops, one thread: what the formulas say.
std::unique_ptr<Ops> make_reference_ops(Device& device, Stream& stream);

/// oneDNN, OpenMP with `threads` threads, and vector code chosen at run time. `isa` (tests): "" for
/// the best this processor has, or "baseline", "avx2", "avx512".
std::unique_ptr<Ops> make_cpu_ops(Device& device, Stream& stream, int threads,
                                  const std::string& isa = "");

struct CudaOpsOptions {
  bool tf32 = true;  ///< products of fp32 values round them to TF32 first
  /// How many algorithms are timed when a product's shape is first met, up to the first
  /// dense_update; 0: the library's first.
  int timed_products = 0;
  Log log;  ///< for what a user may want to know of how it computes
};
/// Hand-written kernels, cuBLASLt and cuDNN; `device` is a GPU (or the emulator).
std::unique_ptr<Ops> make_cuda_ops(Device& device, Stream& stream, const CudaOpsOptions& options);

/// Runs `chosen` and the reference beside it on copies, and throws run_error naming the first
/// operation, its shape and the first element that disagrees beyond rounding.
std::unique_ptr<Ops> make_checked_ops(std::unique_ptr<Ops> chosen, Device& device, Stream& stream);

}  // namespace dlrm
