#pragma once
#include <cmath>

/// Room for lists of ids or bags whose lengths depend on the ids, and whose capacities recur. The
/// code that makes such lists and the plan that estimates them use the same function.
namespace dlrm {

/// Standard deviations of a number that is drawn at random, above the first list of its size.
inline constexpr double kRoomDeviations = 6;

inline double list_room(double count, double deviations) {
  return count + 4 + deviations * std::sqrt(count);
}

}  // namespace dlrm
