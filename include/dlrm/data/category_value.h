#pragma once
#include <cstdint>

#include "dlrm/core/hash.h"

namespace dlrm {

/// A category of Criteo's text: a 32-bit number, or kMissingValue.
using CategoryValue = uint64_t;
constexpr CategoryValue kMissingValue = CategoryValue{1} << 32;

/// The id of a value that is hashed into `rows` rows. Datasets depend on it.
constexpr int64_t hashed_id(CategoryValue value, int64_t rows) {
  return static_cast<int64_t>(mix64(value) % static_cast<uint64_t>(rows));
}

}  // namespace dlrm
