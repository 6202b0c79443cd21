#include <algorithm>

#include "dlrm/data/batch_source.h"

namespace dlrm {

Range BatchPlan::samples_of(int64_t t) const {
  const int64_t begin = t % batches_per_epoch() * batch_size;
  return {begin, std::min(samples, begin + batch_size)};
}

}  // namespace dlrm
