#include <algorithm>

#include "dlrm/data/batch_source.h"

namespace dlrm {

Range BatchPlan::samples_of(int64_t t) const {
  const int64_t begin = t % batches_per_epoch() * batch_size;
  return {begin, std::min(samples, begin + batch_size)};
}

Range BatchPlan::start_batch(int64_t t, int rank, int world, Batch& batch) const {
  const Range all = samples_of(t);
  batch.t = t;
  batch.epoch = epoch_of(t);
  batch.global_size = all.size();
  batch.local = part_of(all.size(), rank, world);
  batch.dropped = 0;
  batch.content = 0;
  batch.weights.clear();  // most sources have none
  return {all.begin + batch.local.begin, all.begin + batch.local.end};
}

}  // namespace dlrm
