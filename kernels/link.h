#pragma once
#include <cstdint>

namespace dlrm::kernels {

/// Blocks of a launch that reads and writes rows in the host's memory. A block of 8 warps has 8 to
/// 16 KiB on its way, and about 100 KiB fill a link of 50 GB/s and 2 us; more warps would only wait
/// on processors that rows in the device's memory could use.
inline constexpr uint32_t kLinkBlocks = 32;

}  // namespace dlrm::kernels
