#include <cmath>
#include <cstring>
#include <limits>

#include "dlrm/core/error.h"
#include "dlrm/device/cuda/runtime.h"

#include "matmul_plan.h"
#include "matmul_shape.h"

namespace dlrm::cuda {
namespace {

constexpr int kRepeats = 5;  // of one candidate, when candidates are timed

/// Events that measure.
class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {
    DLRM_CUDA_CHECK(cudaEventCreate(&start_));
    DLRM_CUDA_CHECK(cudaEventCreate(&stop_));
  }
  ~Stopwatch() {
    cudaEventDestroy(stop_);
    cudaEventDestroy(start_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  void start() { DLRM_CUDA_CHECK(cudaEventRecord(start_, stream_)); }
  float milliseconds() {
    DLRM_CUDA_CHECK(cudaEventRecord(stop_, stream_));
    DLRM_CUDA_CHECK(cudaEventSynchronize(stop_));
    float elapsed = 0;
    DLRM_CUDA_CHECK(cudaEventElapsedTime(&elapsed, start_, stop_));
    return elapsed;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

class LtMatmul final : public Matmul {
 public:
  LtMatmul(Device& device, const MatmulOptions& options) : device_(device), options_(options) {
    const GpuFacts gpu = facts(device);
    capability_ = gpu.major * 10 + gpu.minor;
    DLRM_LT_CHECK(cublasLtCreate(&handle_));
  }
  ~LtMatmul() override {
    plans_.clear();
    cublasLtDestroy(handle_);
  }

  bool serves(const Product& product, Stream& stream) override {
    return plan(product, native(stream)).served;
  }

  void run(const Product& product, Stream& stream) override {
    const cudaStream_t queue = native(stream);
    MatmulPlan& p = plan(product, queue);
    DLRM_CHECK(p.served, "a product that cuBLASLt does not serve");
    DLRM_LT_CHECK(
        p.run(handle_, product, p.algo, workspace(queue), options_.workspace_bytes, queue));
  }

  std::vector<std::byte> choices() const override {
    MatmulChoices chosen;
    for (const auto& [key, plan] : plans_) {
      if (plan->served) chosen[key] = plan->algo;
    }
    return pack_choices(chosen, capability_);
  }

  void restore(std::span<const std::byte> choices) override {
    restored_ = unpack_choices(choices, capability_);
  }

 private:
  MatmulPlan& plan(const Product& product, cudaStream_t stream) {
    const MatmulKey key = key_of(product, options_.tf32);
    const auto known = plans_.find(key);
    if (known != plans_.end()) return *known->second;
    DLRM_CHECK(!capturing(stream), "a product's shape first met while a graph is captured");
    auto made = std::make_unique<MatmulPlan>(product, options_.tf32);
    choose(*made, key, product, stream);
    return *plans_.emplace(key, std::move(made)).first->second;
  }

  void choose(MatmulPlan& plan, const MatmulKey& key, const Product& product, cudaStream_t stream) {
    const auto saved = restored_.find(key);
    if (saved != restored_.end() && plan.takes(handle_, saved->second, options_.workspace_bytes)) {
      plan.algo = saved->second;
      plan.served = keeps_nan(plan, product, stream);
      return;
    }
    const bool timed = options_.timed_candidates > 1 && !product.accumulate;
    const auto proposed = plan.propose(handle_, product, options_.workspace_bytes,
                                       timed ? options_.timed_candidates : 1);
    if (proposed.empty()) return;
    plan.algo = timed ? fastest(plan, proposed, product, stream) : proposed.front();
    plan.served = keeps_nan(plan, product, stream);
  }

  cublasLtMatmulAlgo_t fastest(MatmulPlan& plan, const std::vector<cublasLtMatmulAlgo_t>& proposed,
                               const Product& product, cudaStream_t stream) {
    void* scratch = workspace(stream);
    Stopwatch watch(stream);
    float best = std::numeric_limits<float>::infinity();
    cublasLtMatmulAlgo_t chosen = proposed.front();
    for (const cublasLtMatmulAlgo_t& algo : proposed) {
      const auto once = [&] {
        return plan.run(handle_, product, algo, scratch, options_.workspace_bytes, stream);
      };
      if (once() != CUBLAS_STATUS_SUCCESS) continue;
      watch.start();
      for (int i = 0; i < kRepeats; ++i) DLRM_LT_CHECK(once());
      const float took = watch.milliseconds();
      if (took >= best) continue;
      best = took;
      chosen = algo;
    }
    return chosen;
  }

  /// Whether a ReLU epilogue lets a NaN through. Overwrites d and aux.
  bool keeps_nan(MatmulPlan& plan, const Product& product, cudaStream_t stream) {
    if (product.epilogue != Epilogue::kReluBias && product.epilogue != Epilogue::kReluAuxBias) {
      return true;
    }
    const Matrix& d = product.d;
    const size_t bytes = static_cast<size_t>(d.cols) * size_of(d.type);
    const Buffer bias(device_, bytes, "check of an epilogue");
    DLRM_CUDA_CHECK(cudaMemsetAsync(bias.data(), 0xff, bytes, stream));  // NaN in any float type
    Product poisoned = product;
    poisoned.bias = bias.data();
    poisoned.accumulate = false;
    DLRM_LT_CHECK(plan.run(handle_, poisoned, plan.algo, workspace(stream),
                           options_.workspace_bytes, stream));
    return is_nan(d, 0, 0, stream) && is_nan(d, d.rows - 1, d.cols - 1, stream);
  }

  bool is_nan(const Matrix& d, int64_t row, int64_t column, cudaStream_t stream) {
    uint32_t bits = 0;
    const size_t size = size_of(d.type);
    // bf16 is the upper half of a float.
    char* to = reinterpret_cast<char*>(&bits) + (sizeof(bits) - size);
    DLRM_CUDA_CHECK(
        cudaMemcpyAsync(to, d.element(row, column), size, cudaMemcpyDeviceToHost, stream));
    DLRM_CUDA_CHECK(cudaStreamSynchronize(stream));
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return std::isnan(value);
  }

  /// Each stream's own: products of two streams run side by side.
  void* workspace(cudaStream_t stream) {
    Buffer& buffer = workspaces_[stream];
    if (!buffer.data()) buffer = Buffer(device_, options_.workspace_bytes, "matmul workspace");
    return buffer.data();
  }

  Device& device_;
  MatmulOptions options_;
  int capability_ = 0;
  cublasLtHandle_t handle_ = nullptr;
  std::map<MatmulKey, std::unique_ptr<MatmulPlan>> plans_;
  std::map<cudaStream_t, Buffer> workspaces_;
  MatmulChoices restored_;
};

}  // namespace

std::unique_ptr<Matmul> make_matmul(Device& device, const MatmulOptions& options) {
  return std::make_unique<LtMatmul>(device, options);
}

}  // namespace dlrm::cuda
