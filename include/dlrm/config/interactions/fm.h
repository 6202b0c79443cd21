#pragma once
#include "dlrm/config/interactions/interaction.h"

namespace dlrm {

/// DeepFM (Guo et al., IJCAI 2017): Z = [X, E, fm] with the second-order term of a factorization
/// machine over v = (X, E1 .. EF),
///   fm = Σ_{i<j} v_i · v_j = ½ Σ_d [(Σ_i v_i,d)² − Σ_i v_i,d²].
/// The top MLP is the deep part of DeepFM. Its input contains every vector. Its first layer also
/// has a weight for fm. Without dense features there is no X.
struct FmConfig {
  static constexpr const char* kName = "fm";
  static constexpr bool kNeedsEqualWidths = true;
  static constexpr std::tuple<> keys() { return {}; }
  static constexpr bool embeddings_in_place() { return false; }

  int64_t width(const InteractionInputs& in) const { return in.dense + in.embeddings + 1; }
  InteractionCost cost(const InteractionInputs&) const { return {}; }

  bool operator==(const FmConfig&) const = default;
};

}  // namespace dlrm
