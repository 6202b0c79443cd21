#pragma once
#include <cstdint>

namespace dlrm {

/// The largest number of experts of a mixture.
inline constexpr int64_t kMostExperts = 64;

}  // namespace dlrm
