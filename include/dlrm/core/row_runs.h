#pragma once
#include <cstdint>

namespace dlrm {

/// The ids of one row in a batch are a run. A GPU sums the gradients of a longer run than this in
/// chunks, for which it needs memory.
inline constexpr int64_t kLongRun = 64;

}  // namespace dlrm
