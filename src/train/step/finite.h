#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "dlrm/core/view.h"
#include "dlrm/train/checkpoint.h"

namespace dlrm {

/// The number of the first value that is NaN or infinite.
std::optional<size_t> find_non_finite(View<const float> values);

/// Names the first value of the shards that is not finite: "/tables/C1/adagrad, row 17". Empty if
/// all are finite.
std::string first_bad_row(const std::vector<TensorShard>& shards);

}  // namespace dlrm
