#pragma once
#include "dlrm/config/interactions/interaction.h"

namespace dlrm {

/// The low-rank cross layers of DCN V2 (Wang et al., WWW 2021): x0 = [X, E]; each layer maps x to
/// x0 ⊙ (U(Vx) + b) + x. Z is the last layer's output.
struct CrossConfig {
  static constexpr const char* kName = "cross";
  static constexpr bool kNeedsEqualWidths = false;

  int64_t layers = 3;
  int64_t rank = 512;

  static constexpr auto keys() {
    using C = CrossConfig;
    return std::tuple(WholeNumberKey<C>{"layers", &C::layers, 1, 64, "cross: layers"},
                      WholeNumberKey<C>{"rank", &C::rank, 1, int64_t{1} << 20,
                                        "cross: rank of each layer's product"});
  }

  static constexpr bool embeddings_in_place() { return true; }
  int64_t width(const InteractionInputs& in) const { return in.dense + in.embeddings; }
  InteractionCost cost(const InteractionInputs& in) const {
    const int64_t n = width(in);
    return {.parameters = layers * (rank * n + n * rank + n),  // V, U, b
            .parameter_rows = layers * (rank + n),
            .largest_matrix = rank * n,
            .kept = layers * (2 * n + rank),  // a layer's input, U(Vx) + b, and Vx
            .tensors = 3 * layers};
  }

  bool operator==(const CrossConfig&) const = default;
};

}  // namespace dlrm
