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
#include "dlrm/ops/dropout.h"
#include "dlrm/ops/embedding.h"
#include "dlrm/ops/id_lists.h"
#include "dlrm/ops/interaction.h"
#include "dlrm/ops/layer_norm.h"
#include "dlrm/ops/linear.h"
#include "dlrm/ops/loss.h"
#include "dlrm/ops/max_bags.h"
#include "dlrm/ops/mixture.h"
#include "dlrm/ops/movement.h"
#include "dlrm/ops/parameters.h"
#include "dlrm/ops/types.h"

// X(Operation) for every operation. Ops declares them and each execution overrides them, so that an
// operation is added by its description in one of these headers, a line of the list at its end, and
// a definition in each execution.
#define DLRM_OPERATIONS(X)       \
  DLRM_LINEAR_OPERATIONS(X)      \
  DLRM_DROPOUT_OPERATIONS(X)     \
  DLRM_LAYER_NORM_OPERATIONS(X)  \
  DLRM_MIXTURE_OPERATIONS(X)     \
  DLRM_INTERACTION_OPERATIONS(X) \
  DLRM_LOSS_OPERATIONS(X)        \
  DLRM_EMBEDDING_OPERATIONS(X)   \
  DLRM_MAX_BAG_OPERATIONS(X)     \
  DLRM_MOVEMENT_OPERATIONS(X)    \
  DLRM_PARAMETER_OPERATIONS(X)

// Operations that Ops composes from others, or implements as loops over memory that the host can
// read. The files of src/ops itself define them. An execution may override them.
#define DLRM_SEQUENCES(X)   \
  DLRM_LINEAR_SEQUENCES(X)  \
  DLRM_ID_LIST_SEQUENCES(X) \
  DLRM_EMBEDDING_SEQUENCES(X)

// Declares the override of an operation in the class of an execution.
#define DLRM_OVERRIDE(Operation) void run(const Operation&) override;

namespace dlrm {

/// Computes operations on a device. They are queued in order on the stream that the object was made
/// with. Results are written, not accumulated, unless an operation says so. Views must not overlap
/// unless an operation says so. A size of zero does nothing. Only CheckIds checks ids.
///
/// A Matrix is fp32 or bf16. Products take the stored values and accumulate in fp32 (fp64 in the
/// reference). Results are rounded once to the type of the output.
class Ops {
 public:
  virtual ~Ops() = default;

#define DLRM_RUN(Operation) virtual void run(const Operation&) = 0;
#define DLRM_RUN_SEQUENCE(Operation) virtual void run(const Operation&);
  DLRM_OPERATIONS(DLRM_RUN)
  DLRM_SEQUENCES(DLRM_RUN_SEQUENCE)
#undef DLRM_RUN
#undef DLRM_RUN_SEQUENCE

  /// "reference", "cpu", ... and the instruction set chosen.
  virtual std::string name() const = 0;
  /// Number of threads this object computes with.
  virtual int threads() const = 0;
  /// The algorithms that a library chose by timing, as bytes for a checkpoint. A resumed run
  /// restores them before the first operation, so that it sums in the same order. Choices of
  /// another library or GPU are ignored.
  virtual std::vector<std::byte> tuned_algorithms() const { return {}; }
  virtual void restore_tuned_algorithms(View<const std::byte>) {}

  /// Whether LinearForward writes masks and LinearBackward takes its last members.
  virtual bool fuses_layers() const { return false; }

  /// The stream on which gradients of weights are computed if LinearBackward::deferred is set.
  /// Null: they are never deferred.
  virtual Stream* gradient_stream() { return nullptr; }

  /// Makes an execution of the same kind for a second stream of the device. Null if a second stream
  /// would not help. Operations of the two do not wait for each other.
  virtual std::unique_ptr<Ops> make_for_stream(Stream&) const { return nullptr; }

  // Each call is run() of the operation whose members its parameters are.

  void linear_forward(Matrix x, Matrix w, View<const float> bias, Activation act, Matrix y,
                      Matrix z) {
    run(LinearForward{x, w, bias, act, y, z});
  }
  void linear_backward_input(Matrix dz, Matrix w, Matrix dx) {
    run(LinearBackwardInput{dz, w, dx});
  }
  void linear_backward_weight(Matrix dz, Matrix x, MatrixView<float> dw, View<float> dbias) {
    run(LinearBackwardWeight{dz, x, dw, dbias});
  }
  void activation_backward(Activation act, Matrix y, Matrix z, Matrix dy) {
    run(ActivationBackward{act, y, z, dy});
  }
  void linear_backward_update(const OptimizerStep& step, const LinearBackward& layer,
                              const DenseTensor& weight, const DenseTensor& bias) {
    run(LinearBackwardUpdate{step, layer, weight, bias});
  }
  void dropout(uint64_t key, double rate, const DropoutPlace& place, Matrix x, Matrix y) {
    run(Dropout{key, rate, place, x, y});
  }
  void dot_forward(Matrix x, Matrix e, Matrix z) { run(DotForward{x, e, z}); }
  void dot_backward(Matrix x, Matrix e, Matrix dz, Matrix dx, Matrix de) {
    run(DotBackward{x, e, dz, dx, de});
  }
  void average_pool_forward(Matrix e, int64_t window, Matrix y) {
    run(AveragePoolForward{e, window, y});
  }
  void average_pool_backward(Matrix dy, int64_t window, Matrix de) {
    run(AveragePoolBackward{dy, window, de});
  }
  void cross_forward(Matrix x0, Matrix t, Matrix y) { run(CrossForward{x0, t, y}); }
  void cross_backward(Matrix x0, Matrix dy, Matrix du) { run(CrossBackward{x0, dy, du}); }
  void cross_input_backward(Matrix x0, Matrix t, Matrix dy, Matrix dz, Matrix du, Matrix sum) {
    run(CrossInputBackward{x0, t, dy, dz, du, sum});
  }

  void bce_with_logits(Matrix logits, const Targets& targets, float scale, View<double> loss,
                       Matrix dlogits) {
    run(BceWithLogits{logits, targets, scale, loss, dlogits});
  }
  void sigmoid(Matrix logits, View<float> p) { run(Sigmoid{logits, p}); }

  void check_ids(View<const IdCheck> lists, View<float> flag, View<int64_t> where) {
    run(CheckIds{lists, flag, where});
  }
  void unpack(View<const PackedList> lists) { run(Unpack{lists}); }
  void filter_ids(View<const IdFilter> filters) { run(FilterIds{filters}); }

  void embedding_bag_forward(View<const BagGroup> groups) { run(EmbeddingBagForward{groups}); }
  void max_bag_forward(View<const BagGroup> groups) { run(MaxBagForward{groups}); }
  void max_bag_backward(const RowTable& table, const IdGroup& ids, Matrix pooled,
                        Matrix gradients) {
    run(MaxBagBackward{table, ids, pooled, gradients});
  }
  void separate_ids(const IdGroup& ids, View<int64_t> offsets) { run(SeparateIds{ids, offsets}); }
  void group_rows(View<const IdGroup> groups, int64_t rows, SegmentedRows runs) {
    run(GroupRows{groups, rows, runs});
  }
  void embedding_bag_backward(SegmentedRows runs, View<const BagGradient> gradients,
                              MatrixView<float> grads) {
    run(EmbeddingBagBackward{runs, gradients, grads});
  }
  void row_square_sums(View<const int64_t> count, MatrixView<const float> grads, View<float> sums,
                       const RowTable& table = {}, View<const int64_t> rows = {}) {
    run(RowSquareSums{count, grads, sums, table, rows});
  }
  void sparse_update(const OptimizerStep& step, const RowTable& table, View<const int64_t> rows,
                     View<const int64_t> count, MatrixView<const float> grads,
                     View<const float> square_sums, int64_t full_width) {
    run(SparseUpdate{step, table, rows, count, grads, square_sums, full_width});
  }
  void embedding_bag_update(const OptimizerStep& step, const RowTable& table, SegmentedRows runs,
                            View<const BagGradient> gradients) {
    run(EmbeddingBagUpdate{step, table, runs, gradients});
  }
  void group_rows_of(View<const UpdatedShard> shards, const std::function<void()>& progress) {
    run(GroupShardRows{shards, progress});
  }
  void embedding_bag_updates(const OptimizerStep& step, View<const UpdatedShard> shards,
                             const std::function<void()>& progress) {
    run(UpdateShards{step, shards, progress});
  }
  void sum_table_gradients(View<const UpdatedShard> tables, View<const TableGradients> gradients) {
    run(SumTableGradients{tables, gradients});
  }
  void update_tables(const OptimizerStep& step, View<const TableUpdate> tables) {
    run(UpdateTables{step, tables});
  }

  void copy_blocks(View<const BlockCopy> blocks) { run(CopyBlocks{blocks}); }
  void convert(Matrix x, Matrix y) { run(Convert{x, y}); }
  void add(Matrix x, Matrix y) { run(Add{x, y}); }
  void fill_zero(void* data, int64_t bytes) {
    run(FillZero{{static_cast<char*>(data), static_cast<size_t>(bytes)}});
  }
  void find_non_finite(Matrix x, View<float> bad) { run(FindNonFinite{x, bad}); }

  void dense_update(const OptimizerStep& step, View<float> w, View<const float> g, View<float> s1,
                    View<float> s2, View<BFloat16> copy) {
    run(DenseUpdate{step, w, g, s1, s2, copy});
  }
  void clip_norm(View<float> g, double max_norm) { run(ClipNorm{g, max_norm}); }
  void fill_rows(uint64_t key, int64_t first_row, int64_t first_column, const RowInit& init,
                 const RowTable& table) {
    run(FillRows{key, first_row, first_column, init, table});
  }
};

/// Plain fp64 loops on one thread that follow the formulas.
std::unique_ptr<Ops> make_reference_ops(Device& device, Stream& stream);

/// oneDNN, OpenMP with `threads` threads, and vector code chosen at run time. Tests set `isa` to
/// "avx2" or "avx512"; "" stands for vector_isa().
std::unique_ptr<Ops> make_cpu_ops(Device& device, Stream& stream, int threads,
                                  const std::string& isa = "");

struct CudaOpsOptions {
  bool tf32 = true;  ///< products of fp32 values round them to TF32 first
  /// Number of algorithms that are timed for a new shape of a product, until the first
  /// dense_update. 0 takes the library's first.
  int timed_products = 0;
  Log log;  ///< for messages about how it computes
};
/// Hand-written kernels, cuBLASLt and cuDNN; `device` is a GPU (or the emulator).
std::unique_ptr<Ops> make_cuda_ops(Device& device, Stream& stream, const CudaOpsOptions& options);

/// Runs `chosen`, and the reference on copies of its operands. Throws run_error with the first
/// operation whose results disagree beyond rounding, its shape and the element.
std::unique_ptr<Ops> make_checked_ops(std::unique_ptr<Ops> chosen, Device& device, Stream& stream);

}  // namespace dlrm
