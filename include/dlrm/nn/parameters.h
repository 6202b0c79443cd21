#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dlrm/comm/context.h"
#include "dlrm/core/tensor_shard.h"
#include "dlrm/nn/gradient_buckets.h"
#include "dlrm/ops/ops.h"

namespace dlrm {

/// The data-parallel parameters of a model: one flat array of fp32 masters. Arrays of the same
/// layout hold their gradients, the optimizer state and, in bf16 runs, the rounded copies that
/// products read. Layers add their tensors in forward order, so that backward fills the gradients
/// from the end. The allreduce of a bucket starts while earlier layers still compute.
class Parameters {
 public:
  /// One tensor: [rows, cols], or [rows] if cols is 0. Drawn from N(0, deviation²). If that
  /// is 0, all elements are `constant`.
  struct Tensor {
    std::string path;  ///< "/mlp/top/0/weight"
    int64_t rows = 0;
    int64_t cols = 0;
    double deviation = 0;
    double constant = 0;
    int64_t offset = 0;  ///< first element in the flat arrays
    int64_t stride = 0;  ///< elements from row to row; gaps between rows stay zero
    int64_t size() const { return rows * stride; }
  };

  /// If `clip_norm` is above 0, update() first clips the gradients of all tensors by their common
  /// norm, see ClipNorm.
  Parameters(Context& context, Ops& ops, OptimizerRule rule, DType compute, DType wire,
             double clip_norm = 0);

  /// Adds a tensor. Returns its number. Throws after allocate().
  int add(std::string path, int64_t rows, int64_t cols, double deviation, double constant = 0);
  /// Allocates the arrays. Values are zero until initialise() or a checkpoint fills them.
  /// `joined` other gradients may be summed over the ranks with the last bucket.
  void allocate(int64_t joined = 0);
  /// The place of these gradients, complete when sum_held_gradients() is called. Empty if they are
  /// to be summed apart: on one rank, on CPUs, and unless joins_last_bucket().
  View<float> joined() const {
    return {gradients_.data(), joined_ > 0 ? static_cast<size_t>(joined_) : 0};
  }
  /// Element (r, c) of a tensor is deviation · normal_at(stream_key(seed, path), r, c), or its
  /// constant.
  void initialise(uint64_t seed, float initial_accumulator);
  /// Refreshes the rounded copies after values changed from outside.
  void refresh_copies();

  /// The weight that products read: the bf16 copy in bf16 runs, otherwise the master.
  Matrix weight(int tensor) const;
  View<const float> bias(int tensor) const;
  /// The bias rounded to bf16. Empty in fp32 runs.
  View<const BFloat16> rounded_bias(int tensor) const;
  MatrixView<float> weight_gradient(int tensor) const;
  View<float> bias_gradient(int tensor) const;

  /// Returns true if the backward pass applies each gradient immediately, as on one CPU rank
  /// unless gradients are clipped. Then a fused backward and update starts. update(step) ends the
  /// step in either case.
  bool begin_fused_update(const OptimizerStep& step);
  /// Runs the backward of a linear layer, then gradients_ready_from(weight). `bias` is the tensor
  /// that was added right after `weight`. Sets w, dw and deferred of `layer`, and dbias if
  /// `with_dbias`.
  void linear_backward(LinearBackward layer, int weight, int bias, bool with_dbias = true);
  /// Runs the backward of a linear layer with the given weight, whose dw and dbias `layer` has.
  /// Sets its `deferred`. gradients_ready_from() is left to the caller.
  void linear_backward_of(LinearBackward layer, int weight);
  /// Marks the gradients of `tensor`, and of all tensors added after it, as complete. In a fused
  /// update, applies those that are left. Otherwise starts the allreduce of the buckets that are
  /// complete now. May change those weights, so operations that read them must be queued before
  /// this call.
  void gradients_ready_from(int tensor);
  /// Queues the gradients of weights that were held back. On a device of several ranks these are
  /// the gradients of all tensors that are not in the first bucket: what is queued before this call
  /// does not share the device with them, and what is queued after it runs beside them.
  void queue_held_gradients();
  /// Starts their allreduce, after what the context's stream holds now.
  void sum_held_gradients();
  /// On a device: makes the stream wait until skip_update_flag() is summed over the ranks.
  void finish_flag();
  /// The same for joined(), if it is not empty.
  void finish_joined();
  /// Moves allreduces in flight on.
  void poll();
  /// Waits for the sums over ranks, which have all been started. On a device, raises
  /// skip_update_flag() if a sum or a value is not finite.
  void finish_gradients();
  /// On a device, one float of its memory; otherwise null. update() changes nothing if it is not 0.
  /// It is summed over the ranks with the first bucket of gradients: if one rank raises it before
  /// its backward begins, all ranks skip the update.
  float* skip_update_flag() const;
  /// On a device, after an update was skipped: the path of the first tensor with a value that is
  /// not finite, otherwise of the first with such a gradient. Empty if all are finite now.
  std::optional<std::string> first_bad_tensor();
  /// flag[0] = 1 if a value is not finite, otherwise unchanged.
  void find_non_finite_values(View<float> flag);
  /// Updates all parameters once.
  void update(const OptimizerStep& step);

  /// All tensors and their optimizer state as checkpoints hold them. One rank `saves` them.
  std::vector<TensorShard> shards(bool saves);
  const std::vector<Tensor>& tensors() const { return tensors_; }
  /// Names of the state arrays, as checkpoints append them to a path.
  std::vector<std::string> state_names() const;
  float* values(int tensor) const { return values_.data() + tensors_[index(tensor)].offset; }
  float* state(int which, int tensor) const;
  int64_t size() const { return size_; }

 private:
  /// Elements [begin, end) of the flat arrays.
  DenseTensor tensor(int64_t begin, int64_t end) const;
  void update(const OptimizerStep& step, int64_t begin, int64_t end);
  /// Updates elements [begin, end) in one operation.
  void update_stretch(const OptimizerStep& step, int64_t begin, int64_t end);
  bool is_finite(float* data, int64_t count);
  /// The gradient of element `offset` of the flat arrays.
  float* gradient(int64_t offset) const { return gradients_.data() + first_gradient_ + offset; }
  static size_t index(int i) { return static_cast<size_t>(i); }
  const Array<float>& state_array(int which) const { return which == 0 ? state1_ : state2_; }

  Context& context_;
  Ops& ops_;
  OptimizerRule rule_;
  DType compute_;
  const double clip_norm_;
  const bool can_fuse_update_;  // true for one rank on a CPU; read by begin_fused_update()
  const bool holds_gradients_;  // true for several ranks on a device; read by allocate()
  const DType wire_;
  std::vector<Tensor> tensors_;
  int64_t size_ = 0;
  Array<float> values_, gradients_, state1_, state2_;
  Array<BFloat16> copies_;
  GradientBuckets buckets_;
  int64_t joined_ = 0;          // gradients at the start of gradients_ that are not of tensors
  int64_t first_gradient_ = 0;  // of the first tensor, in gradients_
  int64_t held_before_ = 0;     // gradients of tensors before this element are held back
  std::vector<LinearBackward> held_;  // without input gradients
  // Gradients from this element on are complete with held_, in every step; -1: none are held back.
  int64_t held_from_ = -1;
  OptimizerStep step_;
  bool in_fused_update_ = false;  // gradients are applied as soon as they are complete
  int64_t applied_from_ = 0;      // gradients from this element on have been applied
};

}  // namespace dlrm
