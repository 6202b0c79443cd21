#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dlrm/comm/context.h"
#include "dlrm/ops/ops.h"

namespace dlrm {

/// The data-parallel parameters of a model: one flat array of fp32 masters and, of the same layout,
/// their gradients, optimizer state and (in bf16 runs) the rounded copies that products read.
/// Layers add theirs in forward order, so that backward fills the gradient array from its end, and
/// the allreduce can start bucket by bucket while earlier layers still compute.
class Parameters {
 public:
  /// One tensor: [rows, cols], or [rows] where cols is 0. Drawn from N(0, deviation²), or zero.
  struct Tensor {
    std::string path;  ///< "/mlp/top/0/weight"
    int64_t rows = 0;
    int64_t cols = 0;
    double deviation = 0;
    int64_t offset = 0;  ///< first element in the flat arrays
    int64_t stride = 0;  ///< elements from row to row there; what is between rows stays zero
    int64_t size() const { return rows * stride; }
  };

  Parameters(Context& context, Ops& ops, OptimizerRule rule, DType compute, DType wire);

  /// Adds a tensor; all are added before allocate(). Returns its number.
  int add(std::string path, int64_t rows, int64_t cols, double deviation);
  /// Makes the arrays. Values are zero until initialise() or a checkpoint fills them.
  void allocate();
  /// Element (r, c) of a tensor is deviation · normal_at(stream_key(seed, path), r, c).
  void initialise(uint64_t seed, float initial_accumulator);
  /// Refreshes the rounded copies after values changed from outside.
  void refresh_copies();

  /// What products read: the bf16 copy in bf16 runs, else the master.
  Matrix weight(int tensor) const;
  View<const float> bias(int tensor) const;
  /// The same rounded, in bf16 runs; else empty.
  View<const BFloat16> rounded_bias(int tensor) const;
  MatrixView<float> weight_gradient(int tensor) const;
  View<float> bias_gradient(int tensor) const;

  /// Says that the backward that comes ends in update(step). On one rank on a CPU, where gradients
  /// wait for no others and one pass over everything has no merit, each is then applied as soon as
  /// it is complete; returns whether that is so.
  bool begin_update(const OptimizerStep& step);
  /// The backward of a linear layer of two tensors, `bias` added right after `weight`, and
  /// gradients_ready_from(weight). Sets w, dw and, unless the bias has its gradient already, dbias
  /// of `layer`.
  void linear_backward(LinearBackward layer, int weight, int bias, bool with_dbias = true);
  /// Says that the gradients of `tensor` and of all added after it are complete: starts the
  /// allreduce of every bucket that now is. The weights may change: what reads them comes before.
  void gradients_ready_from(int tensor);
  void poll();
  /// Waits for the sums over ranks. On a device, raises skip_update_flag() where a sum or a value
  /// is not finite.
  void finish_gradients();
  /// On a device one float of its memory, else none: where it is not 0, update() is to change
  /// nothing. It is summed over the ranks with the gradients, so that what one rank found before
  /// its backward ended holds on all.
  float* skip_update_flag() const;
  /// On a device, once update() was suppressed: path of the first tensor with a value, or else a
  /// gradient, that is not finite; none where none is now.
  std::optional<std::string> first_non_finite();
  /// flag[0] = 1 where a value is not finite, else unchanged.
  void find_non_finite_values(View<float> flag);
  /// One optimizer update of everything.
  void update(const OptimizerStep& step);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  /// Names of the state arrays, as checkpoints append them to a path.
  std::vector<std::string> state_names() const;
  float* values(int tensor) const { return values_.data() + tensors_[index(tensor)].offset; }
  float* state(int which, int tensor) const;
  int64_t size() const { return size_; }

 private:
  struct Bucket {
    int64_t begin = 0;
    int64_t end = 0;
    Pending pending;
  };
  /// Elements [begin, end) of the flat arrays.
  DenseTensor tensor(int64_t begin, int64_t end) const;
  void update(const OptimizerStep& step, int64_t begin, int64_t end);
  /// In one operation.
  void update_stretch(const OptimizerStep& step, int64_t begin, int64_t end);
  bool is_finite(float* data, int64_t count);
  static size_t index(int i) { return static_cast<size_t>(i); }
  const Array<float>& state_array(int which) const { return which == 0 ? state1_ : state2_; }
  void make_buckets();

  Context& context_;
  Ops& ops_;
  OptimizerRule rule_;
  DType compute_;
  DType wire_;
  bool alone_;
  std::vector<Tensor> tensors_;
  int64_t size_ = 0;
  Array<float> values_, gradients_, state1_, state2_;
  Array<BFloat16> copies_;
  std::vector<Bucket> buckets_;  // from the end of the array to its start
  size_t started_ = 0;
  OptimizerStep step_;
  bool at_once_ = false;  // gradients are applied as they are complete
  int64_t applied_ = 0;   // ... and have been, from this element on
};

}  // namespace dlrm
