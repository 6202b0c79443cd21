#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/ops/movement.h"

#include "kernels/copy_blocks.h"

namespace dlrm::cuda {

/// Blocks of a list, divided into launches. Blocks of one launch write different places. Blocks
/// that may write the same place keep the order of the list.
struct CopyPlan {
  struct Launch {
    int first = 0;  ///< of the launch's rectangles
    int count = 0;
    int64_t units = 0;
  };
  std::vector<kernels::CopyRectangle> rectangles;
  std::vector<Launch> launches;
};

/// Row lists are in device memory, so the host does not know them. A block with a list of dst rows
/// is therefore assumed to write any row. Blocks with lists that add to the columns of one block of
/// all rows are applied by its threads, in the order of the list.
CopyPlan plan_copies(View<const BlockCopy> blocks);

/// The plans of the most recent lists, found by content.
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
