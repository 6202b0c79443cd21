#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "dlrm/core/dtype.h"
#include "dlrm/core/view.h"

namespace dlrm::reference {

/// Rounds to odd. Rounding the result to a shorter type gives the same as rounding `value` to it
/// directly.
inline float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || !std::isfinite(nearest)) return nearest;
  const bool too_far = std::abs(static_cast<double>(nearest)) > std::abs(value);
  const uint32_t truncated = std::bit_cast<uint32_t>(nearest) - (too_far ? 1u : 0u);
  return std::bit_cast<float>(truncated | 1u);
}

inline double load(const void* data, DType type, int64_t i) {
  switch (type) {
    case DType::kFloat32:
      return static_cast<const float*>(data)[i];
    case DType::kBFloat16:
      return static_cast<float>(static_cast<const BFloat16*>(data)[i]);
    case DType::kFloat16:
      return static_cast<float>(static_cast<const Float16*>(data)[i]);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

/// Rounds once to the element's type.
inline void store(void* data, DType type, int64_t i, double value) {
  switch (type) {
    case DType::kFloat32:
      static_cast<float*>(data)[i] = static_cast<float>(value);
      return;
    case DType::kBFloat16:
      static_cast<BFloat16*>(data)[i] = BFloat16(round_to_odd(value));
      return;
    case DType::kFloat16:
      static_cast<Float16*>(data)[i] = Float16(round_to_odd(value));
      return;
  }
}

inline double get(const Matrix& m, int64_t r, int64_t c) {
  return load(m.data, m.type, r * m.stride + c);
}
inline void set(const Matrix& m, int64_t r, int64_t c, double value) {
  store(m.data, m.type, r * m.stride + c, value);
}

}  // namespace dlrm::reference
