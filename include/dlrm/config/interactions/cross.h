#pragma once
#include <algorithm>

#include "dlrm/config/interactions/interaction.h"

namespace dlrm {

/// The cross layers of DCN V2 (Wang et al., WWW 2021): x0 = [X, E]; each layer maps x to
/// x0 ⊙ (Wx + b) + x, where W is a whole matrix or the product UV of two of a lower rank. Z is the
/// last layer's output.
struct CrossConfig {
  static constexpr const char* kName = "cross";
  static constexpr bool kNeedsEqualWidths = false;

  int64_t layers = 3;
  static constexpr int64_t kFull = 0, kAuto = -1;
  int64_t rank = kAuto;  ///< of W, or kFull

  static constexpr auto keys() {
    using C = CrossConfig;
    return std::tuple(WholeNumberKey<C>{"layers", &C::layers, 1, 64, "cross: layers"},
                      WholeNumberKey<C>{"rank", &C::rank, 0, int64_t{1} << 20,
                                        "cross: rank of each layer's matrix; 0: a whole matrix; "
                                        "auto: a quarter of the width, at most 512",
                                        kAuto});
  }

  /// The rank, kFull for a whole matrix. A quarter of the width keeps the accuracy of a whole
  /// matrix in practice (Wang et al., section 7; TensorFlow Recommenders, layer Cross).
  int64_t rank_of(const InteractionInputs& in) const {
    return rank == kAuto ? std::clamp<int64_t>(width(in) / 4, 1, 512) : rank;
  }
  static constexpr bool embeddings_in_place() { return true; }
  int64_t width(const InteractionInputs& in) const { return in.dense + in.embeddings; }
  InteractionCost cost(const InteractionInputs& in) const {
    const int64_t n = width(in), r = rank_of(in);
    InteractionCost cost{{}, layers * (2 * n + r), 0};  // a layer's input, Wx + b, and Vx
    for (int64_t layer = 0; layer < layers; ++layer) {
      if (r != kFull) cost.products.push_back({n, r});
      cost.products.push_back({r == kFull ? n : r, n, true});
    }
    return cost;
  }

  bool operator==(const CrossConfig&) const = default;
};

}  // namespace dlrm
