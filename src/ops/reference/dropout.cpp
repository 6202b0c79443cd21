#include "dlrm/core/random.h"

#include "reference/elements.h"
#include "reference/reference_ops.h"

namespace dlrm::reference {

void ReferenceOps::run(const Dropout& o) {
  const DropoutPlace& place = o.place;
  const uint32_t step = place.device_step.empty() ? place.step : place.device_step[0];
  for (int64_t r = 0; r < o.y.rows; ++r) {
    const auto sample = static_cast<uint64_t>(place.first_sample + r);
    for (int64_t c = 0; c < o.y.cols; ++c) {
      const auto words =
          philox(o.key, {static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32),
                         static_cast<uint32_t>(c / 4), step});
      const bool dropped = words[static_cast<size_t>(c % 4)] < o.bound();
      set(o.y, r, c, dropped ? 0 : get(o.x, r, c) / (1 - o.rate));
    }
  }
}

}  // namespace dlrm::reference
