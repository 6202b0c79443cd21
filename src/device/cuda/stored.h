#pragma once
#include <cstdint>

#include "dlrm/core/dispatch.h"

namespace dlrm::cuda {

/// Element `i` of fp32 or bf16 values. Host code that emulates a library reads values with it.
inline float load(const void* data, DType type, int64_t i) {
  return dispatch_compute(
      type, [&]<class T>() { return static_cast<float>(static_cast<const T*>(data)[i]); });
}

inline void store(void* data, DType type, int64_t i, float value) {
  dispatch_compute(type, [&]<class T>() { static_cast<T*>(data)[i] = T(value); });
}

}  // namespace dlrm::cuda
