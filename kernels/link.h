#pragma once
#include <cstdint>

namespace dlrm::kernels {

/// Blocks of a launch that reads and writes rows in the host's memory. A block of 8 warps has 8 to
/// 16 KiB in flight. About 100 KiB in flight saturate a link of 50 GB/s and 2 us. More blocks would
/// only occupy multiprocessors that rows in the device's memory could use.
inline constexpr uint32_t kLinkBlocks = 32;

}  // namespace dlrm::kernels
