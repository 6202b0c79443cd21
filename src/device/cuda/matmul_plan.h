#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <cublasLt.h>

#include "dlrm/device/cuda/matmul.h"

namespace dlrm::cuda {

/// Throws run_error with `call` and the library's text if `status` is an error.
void check_lt(cublasStatus_t status, const char* call);
#define DLRM_LT_CHECK(...) ::dlrm::cuda::check_lt((__VA_ARGS__), #__VA_ARGS__)

/// cuBLASLt's descriptors for one shape. The library is column-major. It reads our row-major matrix
/// as its transpose, so it computes dᵀ = op(b)ᵀ op(a)ᵀ. Its A is our b, and its B is our a.
class MatmulPlan {
 public:
  MatmulPlan(const Product& product, bool tf32);
  ~MatmulPlan();
  MatmulPlan(const MatmulPlan&) = delete;
  MatmulPlan& operator=(const MatmulPlan&) = delete;

  /// The library's proposals, best first. Empty if it has no algorithm. A proposal that splits the
  /// inner size adds the parts in fp32 and in a fixed order.
  std::vector<cublasLtMatmulAlgo_t> propose(cublasLtHandle_t handle, const Product& product,
                                            size_t workspace_bytes, int count);
  /// True if `algo` computes this shape within the workspace and sums as a proposal does.
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
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr, d_ = nullptr;
};

}  // namespace dlrm::cuda
