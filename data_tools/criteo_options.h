#pragma once
#include "criteo_convert.h"

namespace dlrm {

/// Throws usage_error for options that lack something or contradict each other, before anything is
/// read or written.
void check_criteo_options(const CriteoOptions& options);

/// Whether the inputs must be read twice.
bool needs_survey(const CriteoOptions& options);

}  // namespace dlrm
