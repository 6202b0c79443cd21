#pragma once
#include "dlrm/config/interactions/interaction.h"

namespace dlrm {

/// Z = [X, strict lower triangle of v vᵀ] with v = (X, E1 .. EF): row i, columns j < i.
struct DotConfig {
  static constexpr const char* kName = "dot";
  static constexpr bool kNeedsEqualWidths = true;
  static constexpr std::tuple<> keys() { return {}; }

  int64_t width(const InteractionInputs& in) const {
    return in.dense + in.features * (in.features + 1) / 2;
  }
  InteractionCost cost(const InteractionInputs&) const { return {}; }

  bool operator==(const DotConfig&) const = default;
};

}  // namespace dlrm
