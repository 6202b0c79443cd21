#pragma once
#include <cstdint>
#include <string>

#include "dlrm/plan/plan.h"

namespace dlrm {

/// `config` with `train.global_batch_size: auto` replaced by the largest power of two with which a
/// plan fits the memory of `options`, and has no more of the tables in slower memory than a batch
/// of one sample needs. Tables may be cached as with_chosen_caches() does. It is at most `samples`,
/// the samples of the data, unless that is 0. `said` becomes a line with the choice and its reason.
/// Another config is returned as it is, and `said` becomes empty. Throws usage_error if the memory
/// is not known, or if no batch fits.
RunConfig with_chosen_batch(const RunConfig& config, int world, const PlanOptions& options,
                            int64_t samples, std::string& said);

/// Throws usage_error if the batch size is left to be chosen, which `program` does not do.
void check_batch_is_chosen(const RunConfig& config, const std::string& program);

}  // namespace dlrm
