#pragma once
#include <string>
#include <vector>

#include "dlrm/ops/ops.h"

namespace dlrm::reference {

/// Each operation by its formula: fp64 loops in one thread. Stored values are rounded once.
class ReferenceOps : public Ops {
 public:
  std::string name() const override { return "reference"; }
  int threads() const override { return 1; }

  using Ops::run;
  DLRM_OPERATIONS(DLRM_OVERRIDE)

 private:
  std::vector<float> row_;  // one row's summed gradient
};

}  // namespace dlrm::reference
