#pragma once
#include "criteo_convert.h"

namespace dlrm {

/// Throws usage_error if options are missing or contradict each other, before anything is read or
/// written.
void check_criteo_options(const CriteoOptions& options);

/// True if the inputs must be read twice.
bool needs_survey(const CriteoOptions& options);

}  // namespace dlrm
