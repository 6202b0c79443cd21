#pragma once
#include "dlrm/comm/world.h"

namespace dlrm::test {

/// Checks what a rank finds out about its node, its machine and its transport. Several ranks.
void check_surroundings(World& world);

}  // namespace dlrm::test
