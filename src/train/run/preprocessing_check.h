#pragma once
#include "run_setup.h"

namespace dlrm {

/// Throws a usage_error, the same on every rank, if records became the samples of data, or of the
/// checkpoint that the run starts from, in ways in which ids or numbers do not mean the same. It
/// names both files and what differs. Data to train on may have more values in dictionaries than
/// the checkpoint, and data to evaluate more or fewer than what was trained on. Collective.
void check_preprocessing(const Context& context, const ModelConfig& model, const Sources& sources,
                         const StartingPoint& start);

}  // namespace dlrm
