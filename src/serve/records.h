#pragma once
#include <string>
#include <string_view>

#include "dlrm/data/record_inputs.h"

namespace dlrm::serve {

/// The samples of {"records": [...], "shared": {...}}, of which there may be `most`.
Samples read_json_records(std::string_view text, const RecordInputs& inputs, int64_t most);

/// Whether the first key of an object of JSON is "records" or "shared".
bool has_records(std::string_view text);

/// The samples as the list of objects that {"samples": [...]} takes.
std::string samples_text(const Samples& samples, const Inputs& inputs);

/// Throws usage_error if a request has more samples than it may have.
void check_samples(int64_t samples, int64_t most);

}  // namespace dlrm::serve
