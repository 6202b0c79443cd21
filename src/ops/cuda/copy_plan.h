#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/ops/movement.h"

#include "kernels/copy_blocks.h"

namespace dlrm::cuda {

/// Blocks of a list in launches: those of one launch write different places, and blocks that may
/// write the same place are in the order of the list.
struct CopyPlan {
  struct Launch {
    int first = 0;  ///< of its rectangles
    int count = 0;
    int64_t units = 0;
  };
  std::vector<kernels::CopyRectangle> rectangles;
  std::vector<Launch> launches;
};

/// Row lists lie in device memory. So a block that lists its rows of dst is assumed to write any
/// row.
CopyPlan plan_copies(View<const BlockCopy> blocks);

/// The plans of the last few lists, found again by content.
class CopyPlans {
 public:
  const CopyPlan& of(View<const BlockCopy> blocks);

 private:
  struct Known {
    std::vector<BlockCopy> blocks;
    CopyPlan plan;
  };
  std::vector<Known> known_;
  size_t oldest_ = 0;
};

}  // namespace dlrm::cuda
