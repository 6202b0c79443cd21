#pragma once
#include "dlrm/plan/plan.h"

namespace dlrm {

/// A shard while it is placed, and what its rank needs for it.
struct Piece {
  Shard shard;
  double seconds = 0;
  double bytes = 0;
};

}  // namespace dlrm
