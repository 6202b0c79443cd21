#pragma once
#include <algorithm>

#include "dlrm/config/interactions/interaction.h"

namespace dlrm {

enum class ConcatOrder : uint8_t { kDenseFirst, kDenseLast };

/// Z = [X, E] or [E, X]. E may be average-pooled along its width first.
struct ConcatConfig {
  static constexpr const char* kName = "concat";
  static constexpr bool kNeedsEqualWidths = false;

  ConcatOrder order = ConcatOrder::kDenseFirst;
  int64_t average_pool = 0;  ///< window and stride of the pooling; 0 = none

  static constexpr auto keys() {
    using C = ConcatConfig;
    return std::tuple(
        ChoiceKey<C, ConcatOrder, 2>{
            "order",
            &C::order,
            {{{"dense_first", ConcatOrder::kDenseFirst}, {"dense_last", ConcatOrder::kDenseLast}}},
            "concat: [X, E] or [E, X]"},
        WholeNumberKey<C>{"average_pool", &C::average_pool, 0, int64_t{1} << 40,
                          "concat: window and stride of an average pooling over the embedding "
                          "width, at most that width; 0 = none"});
  }

  bool embeddings_in_place() const { return average_pool == 0; }
  int64_t width(const InteractionInputs& in) const {
    const int64_t window = std::max<int64_t>(average_pool, 1);
    return in.dense + (in.embeddings + window - 1) / window;
  }
  InteractionCost cost(const InteractionInputs&) const { return {}; }
  std::array<OptionLimit, 1> limits(const InteractionInputs& in) const {
    return {{{"average_pool", average_pool, in.embeddings, "the embedding width"}}};
  }

  bool operator==(const ConcatConfig&) const = default;
};

}  // namespace dlrm
