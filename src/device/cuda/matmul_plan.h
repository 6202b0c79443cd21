#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <cublasLt.h>

#include "dlrm/device/cuda/matmul.h"

namespace dlrm::cuda {

/// Throws run_error with `call` and the library's words where `status` is an error.
void check_lt(cublasStatus_t status, const char* call);
#define DLRM_LT_CHECK(...) ::dlrm::cuda::check_lt((__VA_ARGS__), #__VA_ARGS__)

/// cuBLASLt's descriptions of one shape. The library is column-major: what is row-major here is its
/// own transpose there, so it computes dᵀ = op(b)ᵀ op(a)ᵀ; its A is our b, its B our a.
class MatmulPlan {
 public:
  MatmulPlan(const Product& product, bool tf32);
  ~MatmulPlan();
  MatmulPlan(const MatmulPlan&) = delete;
  MatmulPlan& operator=(const MatmulPlan&) = delete;

  /// The library's proposals, best first; none where it has no algorithm. None splits the inner
  /// size and adds the parts in anything but fp32 (or at all in an order that timing decides).
  std::vector<cublasLtMatmulAlgo_t> propose(cublasLtHandle_t handle, const Product& product,
                                            size_t workspace_bytes, int count);
  /// Whether `algo` serves here within the workspace, and sums as proposals must.
  bool takes(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algo,
             size_t workspace_bytes) const;
  cublasStatus_t run(cublasLtHandle_t handle, const Product& product,
                     const cublasLtMatmulAlgo_t& algo, void* workspace, size_t workspace_bytes,
                     cudaStream_t stream);

  bool served = false;
  cublasLtMatmulAlgo_t algo{};

 private:
  void point_to(const Product& product);

  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, d_ = nullptr;
};

}  // namespace dlrm::cuda
