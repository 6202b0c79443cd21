#pragma once
#include "dlrm/config/interaction_config.h"

#include "codec.h"

namespace dlrm {

/// Reads and writes `model.interaction`: a map with the type and its options, or just the type's
/// name.
Codec<InteractionConfig> interaction_codec();

}  // namespace dlrm
