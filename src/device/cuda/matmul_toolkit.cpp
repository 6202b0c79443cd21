#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "dlrm/core/error.h"
#include "dlrm/device/cuda/runtime.h"

#include "matmul_plan.h"
#include "tuned_algorithms.h"

namespace dlrm::cuda {
namespace {

constexpr int kRepeats = 5;  // timed runs of each candidate
constexpr int kUntimed = 4;  // proposals requested if none is timed, because the first may not run
constexpr float kWorth = 0.97f;  // a later candidate must take less than this share of the best

/// Measures the time between two events of a stream.
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
    origin_ = {cublasLtGetVersion(), gpu.major * 10 + gpu.minor};
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

  int fastest(const Product& product, int ways, const std::function<void(int)>& run_way,
              Stream& stream) override {
    const MatmulKey key = key_of_way(product, options_.tf32);
    const auto known = ways_.find(key);
    if (known != ways_.end()) return known->second;
    int chosen = 0;
    const auto saved = restored_.find(key);
    if (saved != restored_.end()) {
      chosen = static_cast<int>(std::min<uint64_t>(saved->second.data[0], ways - 1u));
    } else if (timed()) {
      Stopwatch watch(native(stream));
      float best = std::numeric_limits<float>::infinity();
      for (int way = 0; way < ways; ++way) {
        run_way(way);
        watch.start();
        for (int i = 0; i < kRepeats; ++i) run_way(way);
        const float took = watch.milliseconds();
        if (took >= best * kWorth) continue;
        best = took;
        chosen = way;
      }
    }
    ways_[key] = chosen;
    return chosen;
  }

  void settle() override { settled_ = true; }

  std::vector<std::byte> tuned_algorithms() const override {
    if (!settled_) return {};
    TunedAlgorithms chosen = restored_;
    for (const auto& [key, plan] : plans_) {
      if (plan->served) std::copy_n(plan->algo.data, 8, chosen[key].data.begin());
    }
    for (const auto& [key, way] : ways_) chosen[key] = {{static_cast<uint64_t>(way)}};
    return pack_tuned_algorithms(chosen, origin_);
  }

  void restore(std::span<const std::byte> choices) override {
    restored_ = unpack_tuned_algorithms(choices, origin_);
    settled_ = !restored_.empty();
  }

 private:
  bool timed() const { return options_.timed_candidates > 1 && !settled_; }

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
    if (saved != restored_.end()) {
      std::copy_n(saved->second.data.begin(), 8, plan.algo.data);
      plan.served = plan.takes(handle_, plan.algo, options_.workspace_bytes);
      if (plan.served) return;
    }
    const auto proposed = plan.propose(handle_, product, options_.workspace_bytes,
                                       timed() ? options_.timed_candidates : kUntimed);
    if (const auto best = first_or_fastest(plan, proposed, product, stream)) {
      plan.algo = *best;
      plan.served = true;
    }
  }

  /// Returns no value if none of the proposals runs.
  std::optional<cublasLtMatmulAlgo_t> first_or_fastest(
      MatmulPlan& plan, const std::vector<cublasLtMatmulAlgo_t>& proposed, const Product& product,
      cudaStream_t stream) {
    // Trials must not change the d that the product adds to. It stays C and D of one address.
    Buffer aside;
    Product trial = product;
    if (product.c.data && product.c.data == product.d.data) {
      const int64_t elements = product.d.rows * product.d.stride;
      aside = Buffer(device_, static_cast<size_t>(elements) * size_of(product.d.type),
                     "choice of a product");
      trial.c.data = trial.d.data = aside.data();
    }
    void* scratch = workspace(stream);
    Stopwatch watch(stream);
    float best = std::numeric_limits<float>::infinity();
    std::optional<cublasLtMatmulAlgo_t> chosen;
    for (const cublasLtMatmulAlgo_t& algo : proposed) {
      const auto once = [&] {
        return plan.run(handle_, trial, algo, scratch, options_.workspace_bytes, stream);
      };
      if (once() != CUBLAS_STATUS_SUCCESS) continue;
      if (!timed()) return algo;
      watch.start();
      for (int i = 0; i < kRepeats; ++i) DLRM_LT_CHECK(once());
      const float took = watch.milliseconds();
      if (took >= best * kWorth) continue;
      best = took;
      chosen = algo;
    }
    return chosen;
  }

  /// Each stream has its own workspace, because products of two streams run concurrently.
  void* workspace(cudaStream_t stream) {
    Buffer& buffer = workspaces_[stream];
    if (!buffer.data()) buffer = Buffer(device_, options_.workspace_bytes, "matmul workspace");
    return buffer.data();
  }

  Device& device_;
  MatmulOptions options_;
  MatmulOrigin origin_;
  bool settled_ = false;
  cublasLtHandle_t handle_ = nullptr;
  std::map<MatmulKey, std::unique_ptr<MatmulPlan>> plans_;
  std::map<MatmulKey, int> ways_;
  std::map<cudaStream_t, Buffer> workspaces_;
  TunedAlgorithms restored_;
};

}  // namespace

std::unique_ptr<Matmul> make_matmul(Device& device, const MatmulOptions& options) {
  return std::make_unique<LtMatmul>(device, options);
}

}  // namespace dlrm::cuda
