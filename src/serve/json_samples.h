#pragma once
#include <string_view>

#include "dlrm/data/samples.h"

namespace dlrm::serve {

/// Appends the sample of an object such as {"dense": [0.5, 2], "ids": {"C1": [17], "C2": []}}. A
/// feature that is missing has an empty bag. Throws usage_error, and leaves `samples` as they are,
/// if the text is no such object or does not fit the model.
void append_json_sample(std::string_view text, const Inputs& inputs, Samples& samples);

/// The samples of {"samples": [...]}, a list of such objects, of which there may be `most`.
Samples read_json_samples(std::string_view text, const Inputs& inputs, int64_t most);

}  // namespace dlrm::serve
