#pragma once
#include <cstdint>
#include <type_traits>

#include "dlrm/comm/communicator.h"

namespace dlrm::comm {

template <class T>
constexpr Reduction::Element element_of() {
  if constexpr (std::is_same_v<T, float>) return Reduction::Element::kFloat;
  if constexpr (std::is_same_v<T, double>) return Reduction::Element::kDouble;
  if constexpr (std::is_same_v<T, int64_t>) return Reduction::Element::kInt64;
}

/// Bytes of one element.
constexpr int64_t width_of(Reduction::Element element) {
  return element == Reduction::Element::kFloat ? 4 : 8;
}

/// Calls use(T()) with the type that `element` names.
template <class Use>
auto with_type_of(Reduction::Element element, Use use) {
  switch (element) {
    case Reduction::Element::kDouble:
      return use(double());
    case Reduction::Element::kInt64:
      return use(int64_t());
    case Reduction::Element::kFloat:
      break;
  }
  return use(float());
}

}  // namespace dlrm::comm
