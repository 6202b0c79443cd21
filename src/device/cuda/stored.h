#pragma once
#include <cstdint>

#include "dlrm/core/dtype.h"
#include "dlrm/core/error.h"

namespace dlrm::cuda {

/// Element `i` of fp32 or bf16 values, for host code that stands in for a library.
inline float load(const void* data, DType type, int64_t i) {
  if (type == DType::kFloat32) return static_cast<const float*>(data)[i];
  DLRM_CHECK(type == DType::kBFloat16, "neither fp32 nor bf16");
  return static_cast<float>(static_cast<const BFloat16*>(data)[i]);
}

inline void store(void* data, DType type, int64_t i, float value) {
  if (type == DType::kFloat32) {
    static_cast<float*>(data)[i] = value;
    return;
  }
  DLRM_CHECK(type == DType::kBFloat16, "neither fp32 nor bf16");
  static_cast<BFloat16*>(data)[i] = BFloat16(value);
}

}  // namespace dlrm::cuda
