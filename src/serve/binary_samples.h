#pragma once
#include <string>
#include <string_view>

#include "dlrm/core/view.h"
#include "dlrm/data/samples.h"

namespace dlrm::serve {

constexpr uint32_t kBinaryVersion = 1;

/// Reads samples of a binary body, little-endian and without gaps:
///
///   uint32             kBinaryVersion, the version of this layout
///   uint32             b, the number of samples
///   float32 [b, n]     dense features
///   uint32 [b, F]      number of ids in each bag; features in the order of Inputs
///   int64 []           the ids: sample after sample, in each feature after feature
///
/// Throws usage_error if the body is not of this form, or does not fit the model.
Samples read_binary_samples(std::string_view body, const Inputs& inputs);

/// The answer to such a body: float32 [b], with several labels [b, labels].
std::string binary_probabilities(View<const float> probabilities);

}  // namespace dlrm::serve
