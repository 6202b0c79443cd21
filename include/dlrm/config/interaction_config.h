#pragma once
#include <variant>

#include "dlrm/config/interactions/concat.h"
#include "dlrm/config/interactions/cross.h"
#include "dlrm/config/interactions/dot.h"
#include "dlrm/config/interactions/fm.h"

namespace dlrm {

/// Every interaction, in the order of the reference. The first is the default.
/// src/nn/interactions/<name>.cpp computes it.
using InteractionConfig = std::variant<DotConfig, ConcatConfig, CrossConfig, FmConfig>;

}  // namespace dlrm
