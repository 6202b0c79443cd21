#pragma once
#include "dlrm/config/interactions/interaction.h"

namespace dlrm {

/// Z = [X, strict lower triangle of v vᵀ] with v = (X, E1 .. EF): row i, columns j < i. Without
/// dense features there is no X, and v = (E1 .. EF).
struct DotConfig {
  static constexpr const char* kName = "dot";
  static constexpr bool kNeedsEqualWidths = true;
  static constexpr std::tuple<> keys() { return {}; }
  static constexpr bool embeddings_in_place() { return false; }

  int64_t width(const InteractionInputs& in) const {
    const int64_t vectors = in.features + (in.dense > 0 ? 1 : 0);
    return in.dense + vectors * (vectors - 1) / 2;
  }
  InteractionCost cost(const InteractionInputs& in) const {
    if (in.dense > 0) return {};
    // A copy of E1 before Z, and one of the gradient of Z, with up to a row's alignment around
    // them.
    return {.kept = 2 * in.embeddings / in.features + width(in) + 64};
  }

  bool operator==(const DotConfig&) const = default;
};

}  // namespace dlrm
