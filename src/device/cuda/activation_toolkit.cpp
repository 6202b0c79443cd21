#include <algorithm>
#include <limits>

#include <cudnn.h>

#include "dlrm/core/error.h"
#include "dlrm/device/cuda/activation.h"
#include "dlrm/device/cuda/runtime.h"

namespace dlrm::cuda {
namespace {

void check_dnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw run_error("cudnn: {}: {}", call, cudnnGetErrorString(status));
}
#define DLRM_DNN_CHECK(...) check_dnn((__VA_ARGS__), #__VA_ARGS__)

cudnnActivationMode_t native(Activation act) {
  switch (act) {
    case Activation::kSigmoid:
      return CUDNN_ACTIVATION_SIGMOID;
    case Activation::kTanh:
      return CUDNN_ACTIVATION_TANH;
    case Activation::kSilu:
      return CUDNN_ACTIVATION_SWISH;
    case Activation::kNone:
    case Activation::kRelu:
    case Activation::kGelu:
      break;
  }
  return CUDNN_ACTIVATION_IDENTITY;
}

cudnnDataType_t native(DType type) {
  switch (type) {
    case DType::kFloat32:
      return CUDNN_DATA_FLOAT;
    case DType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    case DType::kFloat16:
      break;
  }
  throw run_error("an activation of {}", name_of(type));
}

/// A matrix as a tensor [rows, cols, 1, 1].
class TensorOf {
 public:
  explicit TensorOf(const Matrix& m) {
    DLRM_DNN_CHECK(cudnnCreateTensorDescriptor(&descriptor_));
    const auto size = [](int64_t n) { return static_cast<int>(n); };
    DLRM_DNN_CHECK(cudnnSetTensor4dDescriptorEx(descriptor_, native(m.type), size(m.rows),
                                                size(m.cols), 1, 1, size(m.stride), 1, 1, 1));
  }
  ~TensorOf() { cudnnDestroyTensorDescriptor(descriptor_); }
  TensorOf(const TensorOf&) = delete;
  TensorOf& operator=(const TensorOf&) = delete;
  cudnnTensorDescriptor_t get() const { return descriptor_; }

 private:
  cudnnTensorDescriptor_t descriptor_ = nullptr;
};

class ActivationOf {
 public:
  explicit ActivationOf(Activation act) {
    DLRM_DNN_CHECK(cudnnCreateActivationDescriptor(&descriptor_));
    DLRM_DNN_CHECK(
        cudnnSetActivationDescriptor(descriptor_, native(act), CUDNN_PROPAGATE_NAN, 0.0));
    if (act == Activation::kSilu) {
      DLRM_DNN_CHECK(cudnnSetActivationDescriptorSwishBeta(descriptor_, 1.0));
    }
  }
  ~ActivationOf() { cudnnDestroyActivationDescriptor(descriptor_); }
  ActivationOf(const ActivationOf&) = delete;
  ActivationOf& operator=(const ActivationOf&) = delete;
  cudnnActivationDescriptor_t get() const { return descriptor_; }

 private:
  cudnnActivationDescriptor_t descriptor_ = nullptr;
};

/// cuDNN takes sizes and strides as int.
bool describable(const Matrix& m) {
  return m.type != DType::kFloat16 &&
         m.rows * std::max(m.stride, m.cols) <= std::numeric_limits<int>::max();
}

/// The category of a status. Since cuDNN 9 a category such as "not supported" has several statuses.
cudnnStatus_t kind_of(cudnnStatus_t status) {
#ifdef CUDNN_STATUS_CATEGORY
  return static_cast<cudnnStatus_t>(CUDNN_STATUS_CATEGORY(status));
#else
  return status;
#endif
}

bool taken(cudnnStatus_t status, const char* call) {
  const cudnnStatus_t kind = kind_of(status);
  if (kind == CUDNN_STATUS_NOT_SUPPORTED || kind == CUDNN_STATUS_BAD_PARAM) return false;
  check_dnn(status, call);
  return true;
}

class DnnActivations final : public Activations {
 public:
  DnnActivations() { DLRM_DNN_CHECK(cudnnCreate(&handle_)); }
  ~DnnActivations() override { cudnnDestroy(handle_); }

  bool forward(Activation act, Matrix z, Matrix y, Stream& stream) override {
    if (!in_library(act) || !describable(z) || !describable(y)) return false;
    DLRM_DNN_CHECK(cudnnSetStream(handle_, cuda::native(stream)));
    const ActivationOf function(act);
    const TensorOf in(z), out(y);
    return taken(cudnnActivationForward(handle_, function.get(), &kOne, in.get(), z.data, &kZero,
                                        out.get(), y.data),
                 "cudnnActivationForward");
  }

  bool backward(Activation act, Matrix y, Matrix dy, Stream& stream) override {
    if (!in_library(act) || needs_input(act) || !describable(y) || !describable(dy)) return false;
    DLRM_DNN_CHECK(cudnnSetStream(handle_, cuda::native(stream)));
    const ActivationOf function(act);
    const TensorOf out(y), gradient(dy);
    // y is passed as the input as well, as if the activation had been applied in place.
    return taken(
        cudnnActivationBackward(handle_, function.get(), &kOne, out.get(), y.data, gradient.get(),
                                dy.data, out.get(), y.data, &kZero, gradient.get(), dy.data),
        "cudnnActivationBackward");
  }

 private:
  static constexpr float kOne = 1, kZero = 0;
  cudnnHandle_t handle_ = nullptr;
};

}  // namespace

std::unique_ptr<Activations> make_activations(Device&) {
  return std::make_unique<DnnActivations>();
}

}  // namespace dlrm::cuda
