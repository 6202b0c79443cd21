#include "dlrm/nn/parameters.h"

#include <algorithm>

#include "dlrm/core/random.h"
#include "dlrm/device/transfer.h"
#include "dlrm/nn/matrix_stride.h"
#include "dlrm/wire/gradient_buckets.h"

namespace dlrm {
namespace {

constexpr int64_t kAlign = 16;  // floats: each tensor starts on a cache line

int64_t aligned(int64_t floats) { return (floats + kAlign - 1) / kAlign * kAlign; }

}  // namespace

Parameters::Parameters(Context& context, Ops& ops, OptimizerRule rule, DType compute, DType wire,
                       double clip_norm)
    : context_(context),
      ops_(ops),
      rule_(rule),
      compute_(compute),
      clip_norm_(clip_norm),
      can_fuse_update_(context.comm.size() == 1 && !context.device.asynchronous() &&
                       clip_norm == 0),
      holds_gradients_(context.comm.size() > 1 && ops.gradient_stream()),
      wire_(wire),
      buckets_(context, wire, ops.gradient_stream()) {}

int Parameters::add(std::string path, int64_t rows, int64_t cols, double deviation,
                    double constant) {
  DLRM_CHECK(values_.size() == 0, "{} added after allocate()", path);
  const int64_t stride = cols ? matrix_stride(context_.device, cols) : 1;
  tensors_.push_back({std::move(path), rows, cols, deviation, constant, size_, stride});
  size_ += aligned(tensors_.back().size());
  return static_cast<int>(tensors_.size()) - 1;
}

void Parameters::allocate(int64_t joined) {
  const auto n = static_cast<size_t>(size_);
  std::vector<int64_t> starts;
  for (const Tensor& t : tensors_) starts.push_back(t.offset);
  const size_t buckets = gradient_buckets(starts, size_, context_.device.asynchronous()).size();
  if (holds_gradients_ && joins_last_bucket(buckets, wire_)) joined_ = joined;
  first_gradient_ = aligned(joined_);
  values_ = Array<float>(context_.device, n, "dense parameters");
  const size_t flag = context_.device.asynchronous() ? 1 : 0;
  gradients_ = Array<float>(context_.device_comm().shared_memory(context_.device),
                            static_cast<size_t>(first_gradient_) + n + flag, "dense gradients");
  const int states = traits_of(rule_).state_count();
  if (states > 0) state1_ = Array<float>(context_.device, n, "dense optimizer state");
  if (states > 1) state2_ = Array<float>(context_.device, n, "dense optimizer state");
  if (compute_ == DType::kBFloat16) copies_ = Array<BFloat16>(context_.device, n, "bf16 weights");
  buckets_.cut(gradients_.view(), starts, size_, first_gradient_);
  if (holds_gradients_) held_before_ = buckets_.first_begin();
}

float* Parameters::skip_update_flag() const {
  return context_.device.asynchronous() ? gradient(size_) : nullptr;
}

void Parameters::initialise(uint64_t seed, float initial_accumulator) {
  Transfer transfer(context_.device, context_.stream);
  std::vector<float> drawn;
  for (const Tensor& t : tensors_) {
    const uint64_t key = stream_key(seed, t.path);
    const int64_t cols = t.cols ? t.cols : 1;
    drawn.assign(static_cast<size_t>(t.size()), 0);
    for (int64_t r = 0; r < t.rows && t.deviation == 0 && t.constant != 0; ++r) {
      std::fill_n(drawn.data() + r * t.stride, cols, static_cast<float>(t.constant));
    }
    for (int64_t r = 0; r < t.rows && t.deviation != 0; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        drawn[static_cast<size_t>(r * t.stride + c)] = static_cast<float>(
            t.deviation * normal_at(key, static_cast<uint64_t>(r), static_cast<uint32_t>(c)));
      }
    }
    transfer.to_device(values_.data() + t.offset, drawn.data(), drawn.size() * sizeof(float));
  }
  const OptimizerTraits& traits = traits_of(rule_);
  for (int i = 0; i < traits.state_count(); ++i) {
    if (!traits.states[i].accumulates) continue;
    drawn.assign(static_cast<size_t>(size_), initial_accumulator);
    transfer.to_device(state_array(i).data(), drawn.data(), drawn.size() * sizeof(float));
  }
  refresh_copies();
}

void Parameters::refresh_copies() {
  if (compute_ != DType::kBFloat16) return;
  ops_.convert(Matrix(values_.data(), DType::kFloat32, 1, size_),
               Matrix(copies_.data(), DType::kBFloat16, 1, size_));
}

Matrix Parameters::weight(int tensor) const {
  const Tensor& t = tensors_[index(tensor)];
  void* data = compute_ == DType::kBFloat16 ? static_cast<void*>(copies_.data() + t.offset)
                                            : static_cast<void*>(values_.data() + t.offset);
  return {data, compute_, t.rows, t.cols, t.stride};
}

View<const float> Parameters::bias(int tensor) const {
  const Tensor& t = tensors_[index(tensor)];
  return {values_.data() + t.offset, static_cast<size_t>(t.rows)};
}

View<const BFloat16> Parameters::rounded_bias(int tensor) const {
  if (compute_ != DType::kBFloat16) return {};
  const Tensor& t = tensors_[index(tensor)];
  return {copies_.data() + t.offset, static_cast<size_t>(t.rows)};
}

MatrixView<float> Parameters::weight_gradient(int tensor) const {
  const Tensor& t = tensors_[index(tensor)];
  return {gradient(t.offset), t.rows, t.cols, t.stride};
}

View<float> Parameters::bias_gradient(int tensor) const {
  const Tensor& t = tensors_[index(tensor)];
  return {gradient(t.offset), static_cast<size_t>(t.rows)};
}

DenseTensor Parameters::tensor(int64_t begin, int64_t end) const {
  const auto part = [&](const auto& array) {
    if (array.size() == 0) return array.view();
    return array.view().subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  };
  return {part(values_), part(state1_), part(state2_), part(copies_)};
}

bool Parameters::begin_fused_update(const OptimizerStep& step) {
  step_ = step;
  in_fused_update_ = can_fuse_update_;
  applied_from_ = size_;
  return in_fused_update_;
}

void Parameters::linear_backward(LinearBackward layer, int weight, int bias, bool with_dbias) {
  layer.w = this->weight(weight);
  layer.dw = weight_gradient(weight);
  if (with_dbias) layer.dbias = bias_gradient(bias);
  if (in_fused_update_) {
    const Tensor &w = tensors_[index(weight)], &b = tensors_[index(bias)];
    DLRM_CHECK(b.offset + b.size() > applied_from_ - kAlign && b.offset < applied_from_,
               "the backward of {} and {} is not in reverse order", w.path, b.path);
    DenseTensor biases = tensor(b.offset, b.offset + b.size());
    biases.copy = {};  // products read biases in fp32
    ops_.linear_backward_update(step_, layer, tensor(w.offset, w.offset + w.size()), biases);
    applied_from_ = w.offset;
  } else {
    linear_backward_of(layer, weight);
  }
  gradients_ready_from(weight);
}

void Parameters::linear_backward_of(LinearBackward layer, int weight) {
  layer.deferred = ops_.gradient_stream() != nullptr;
  // A layer with one output computes all gradients in one pass.
  if (tensors_[index(weight)].offset < held_before_ && layer.dy.cols > 1) {
    LinearBackward held;
    held.dy = layer.dy, held.x = layer.x, held.w = layer.w;
    held.dw = layer.dw, held.dbias = layer.dbias;
    held.deferred = true;
    held_.push_back(held);
    layer.dw = {}, layer.dbias = {};
  }
  ops_.run(layer);
}

void Parameters::gradients_ready_from(int tensor) {
  const int64_t from = tensors_[index(tensor)].offset;
  if (in_fused_update_) {
    if (from < applied_from_) update(step_, from, applied_from_);
    applied_from_ = std::min(applied_from_, from);
    return;
  }
  const bool joins = joined_ > 0 && from < held_before_;
  if (held_.empty() && !joins) {
    buckets_.ready_from(from);
  } else {
    held_from_ = from;
  }
}

void Parameters::queue_held_gradients() {
  for (const LinearBackward& layer : held_) ops_.run(layer);
  held_.clear();
}

void Parameters::sum_held_gradients() {
  if (held_from_ >= 0) buckets_.ready_from(held_from_);
}

void Parameters::finish_flag() { buckets_.finish_first(); }

void Parameters::finish_joined() {
  if (joined_ > 0) buckets_.finish_last();
}

void Parameters::poll() { buckets_.poll(); }

void Parameters::finish_gradients() {
  if (in_fused_update_) return;
  buckets_.finish();
  float* flag = skip_update_flag();
  if (!flag) return;
  // A fused relu turns a NaN into 0, so outputs may not show it. If a layer's input is not finite,
  // the gradient of its weights is not finite either. The flag skips the update, so weights that
  // were finite stay finite.
  for (float* data : {gradient(0), values_.data()}) {
    ops_.find_non_finite(Matrix(data, DType::kFloat32, 1, size_), {flag, 1});
  }
}

bool Parameters::is_finite(float* data, int64_t count) {
  const Array<float> found(context_.device, 1, "flag");
  ops_.find_non_finite(Matrix(data, DType::kFloat32, 1, count), found.view());
  float flag = 0;
  Transfer(context_.device, context_.stream).to_host(&flag, found.data(), sizeof(float));
  return flag == 0;
}

void Parameters::find_non_finite_values(View<float> flag) {
  ops_.find_non_finite(Matrix(values_.data(), DType::kFloat32, 1, size_), flag);
}

std::optional<std::string> Parameters::first_bad_tensor() {
  for (float* data : {values_.data(), gradient(0)}) {
    for (const Tensor& t : tensors_) {
      if (!is_finite(data + t.offset, t.size())) return t.path;
    }
  }
  return std::nullopt;
}

void Parameters::update(const OptimizerStep& step) {
  if (!in_fused_update_) {
    if (clip_norm_ > 0) {
      ops_.clip_norm({gradient(0), static_cast<size_t>(size_)}, clip_norm_);
    }
    return update(step, 0, size_);
  }
  DLRM_CHECK(applied_from_ == 0, "gradients of some layers were never complete");
  in_fused_update_ = false;
}

void Parameters::update(const OptimizerStep& step, int64_t begin, int64_t end) {
  if (!traits_of(step.rule).tensorwise()) return update_stretch(step, begin, end);
  for (const Tensor& t : tensors_) {
    if (t.offset >= begin && t.offset < end) update_stretch(step, t.offset, t.offset + t.size());
  }
}

void Parameters::update_stretch(const OptimizerStep& step, int64_t begin, int64_t end) {
  const DenseTensor t = tensor(begin, end);
  const View<const float> g = {gradient(begin), static_cast<size_t>(end - begin)};
  ops_.dense_update(step, t.values, g, t.state1, t.state2, t.copy);
}

std::vector<std::string> Parameters::state_names() const {
  const OptimizerTraits& traits = traits_of(rule_);
  std::vector<std::string> names;
  for (int i = 0; i < traits.state_count(); ++i) names.emplace_back(traits.states[i].name);
  return names;
}

float* Parameters::state(int which, int tensor) const {
  return state_array(which).data() + tensors_[index(tensor)].offset;
}

}  // namespace dlrm
