#pragma once
#include "dlrm/config/interaction_config.h"

#include "codec.h"

namespace dlrm {

/// Reads and writes `model.interaction`: a map with the type and that type's options, or the type's
/// name alone.
Codec<InteractionConfig> interaction_codec();

}  // namespace dlrm
