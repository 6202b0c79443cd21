#include "max_gradients.h"

#include <limits>

#include "dlrm/core/error.h"

namespace dlrm {

void MaxGradients::begin(const Size& size) {
  offsets_.reserve(static_cast<size_t>(size.offsets));
  gradients_.reserve(static_cast<size_t>(size.gradients));
  used_ = {};
}

IdGroup MaxGradients::separated(const IdGroup& ids, Ops& ops) {
  if (ids.bags == 0) return ids;
  DLRM_CHECK(ids.capacity <= std::numeric_limits<int32_t>::max(), "{} ids with max pooling",
             ids.capacity);  // their bags are counted in 32 bits
  int64_t* const offsets = offsets_.data() + used_.offsets;
  used_.add_ids(ids);
  DLRM_CHECK(used_.offsets <= static_cast<int64_t>(offsets_.size()), "{} offsets in room for {}",
             used_.offsets, offsets_.size());
  ops.separate_ids(ids, {offsets, static_cast<size_t>(ids.capacity) + 1});
  return {ids.ids, offsets, ids.capacity, ids.capacity};
}

BagGradient MaxGradients::gradients(const RowTable& table, const IdGroup& ids, const Matrix& pooled,
                                    Ops& ops) {
  float* const data = gradients_.data() + used_.gradients;
  used_.add_gradients(ids, table.width);
  DLRM_CHECK(used_.gradients <= static_cast<int64_t>(gradients_.size()),
             "{} gradients in room for {}", used_.gradients, gradients_.size());
  const Matrix gradients(data, pooled.type, ids.capacity, table.width);
  ops.max_bag_backward(table, ids, pooled, gradients);
  return {gradients, nullptr};
}

}  // namespace dlrm
