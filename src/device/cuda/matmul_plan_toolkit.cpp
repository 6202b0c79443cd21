#include "dlrm/core/error.h"

#include "matmul_plan.h"
#include "matmul_shape.h"
#include "tuned_algorithms.h"

namespace dlrm::cuda {
namespace {

cudaDataType_t native(DType type) {
  switch (type) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat16:
      break;
  }
  throw run_error("a product of {}", name_of(type));
}

cublasLtEpilogue_t native(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kReluBias:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::kReluAuxBias:
      return CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
    case Epilogue::kGeluAuxBias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::kDrelu:
      return CUBLASLT_EPILOGUE_DRELU;
    case Epilogue::kDreluBgrad:
      return CUBLASLT_EPILOGUE_DRELU_BGRAD;
    case Epilogue::kSumsOfA:
      return CUBLASLT_EPILOGUE_BGRADB;
    case Epilogue::kSumsOfB:
      return CUBLASLT_EPILOGUE_BGRADA;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

/// What cuBLASLt reads as C. It requires one even if nothing is added.
const Matrix& added(const Product& p) { return p.c.data ? p.c : p.d; }

cublasLtMatrixLayout_t layout(const Matrix& m) {
  cublasLtMatrixLayout_t made = nullptr;
  DLRM_LT_CHECK(cublasLtMatrixLayoutCreate(&made, native(m.type), static_cast<uint64_t>(m.cols),
                                           static_cast<uint64_t>(m.rows), m.stride));
  return made;
}

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, T value) {
  DLRM_LT_CHECK(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)));
}

/// The allowed way to add the parts of a split inner size: in fp32, one after the other. The other
/// schemes are excluded: they round each part to the type of the result.
constexpr uint32_t kReductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

bool reduces_in_fp32(const cublasLtMatmulAlgo_t& algo) {
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
  size_t written = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoConfigGetAttribute(
      &algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof(scheme), &written);
  return status == CUBLAS_STATUS_SUCCESS && (scheme & ~kReductions) == 0;
}

/// The limits on proposals.
class Preference {
 public:
  Preference(const Product& p, size_t workspace_bytes) {
    DLRM_LT_CHECK(cublasLtMatmulPreferenceCreate(&preference_));
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace_bytes));
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(alignment(p.b.data)));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(alignment(p.a.data)));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        static_cast<uint32_t>(alignment(added(p).data)));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(alignment(p.d.data)));
  }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    DLRM_LT_CHECK(
        cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof(value)));
  }
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace

void check_lt(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw run_error("cublasLt: {}: {}", call, cublasLtGetStatusString(status));
}

MatmulPlan::MatmulPlan(const Product& p, bool tf32) {
  const bool rounds = tf32 && p.a.type == DType::kFloat32;
  DLRM_LT_CHECK(cublasLtMatmulDescCreate(
      &operation_, rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, native(p.epilogue));
  if (uses_aux(p.epilogue)) {
    set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.aux_stride);
  }
  point_to(p);
  a_ = layout(p.b);
  b_ = layout(p.a);
  c_ = layout(added(p));
  d_ = layout(p.d);
}

MatmulPlan::~MatmulPlan() {
  cublasLtMatrixLayoutDestroy(d_);
  cublasLtMatrixLayoutDestroy(c_);
  cublasLtMatrixLayoutDestroy(b_);
  cublasLtMatrixLayoutDestroy(a_);
  cublasLtMatmulDescDestroy(operation_);
}

void MatmulPlan::point_to(const Product& p) {
  if (p.bias) set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (uses_aux(p.epilogue)) set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.aux);
}

std::vector<cublasLtMatmulAlgo_t> MatmulPlan::propose(cublasLtHandle_t handle, const Product& p,
                                                      size_t workspace_bytes, int count) {
  const Preference preference(p, workspace_bytes);
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(count));
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, operation_, a_, b_, c_, d_, preference.get(), count, results.data(), &found);
  std::vector<cublasLtMatmulAlgo_t> algos;
  // The library reports a lack of algorithms as "not supported" or as an invalid value.
  if (status != CUBLAS_STATUS_SUCCESS) return algos;
  for (int i = 0; i < found; ++i) {
    const auto& result = results[static_cast<size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS && reduces_in_fp32(result.algo))
      algos.push_back(result.algo);
  }
  return algos;
}

bool MatmulPlan::takes(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& candidate,
                       size_t workspace_bytes) const {
  cublasLtMatmulHeuristicResult_t result{};
  return cublasLtMatmulAlgoCheck(handle, operation_, a_, b_, c_, d_, &candidate, &result) ==
             CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= workspace_bytes && reduces_in_fp32(candidate);
}

cublasStatus_t MatmulPlan::run(cublasLtHandle_t handle, const Product& p,
                               const cublasLtMatmulAlgo_t& chosen, void* workspace,
                               size_t workspace_bytes, cudaStream_t stream) {
  point_to(p);
  const float one = 1, kept = p.c.data ? 1.0f : 0.0f;
  return cublasLtMatmul(handle, operation_, &one, p.b.data, a_, p.a.data, b_, &kept, added(p).data,
                        c_, p.d.data, d_, &chosen, workspace, workspace_bytes, stream);
}

}  // namespace dlrm::cuda
