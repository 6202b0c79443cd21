#include "dlrm/ops/ops.h"

namespace dlrm {
namespace {

int64_t id_at(const IdPart& part, int64_t k) {
  return part.narrow ? static_cast<const int32_t*>(part.ids)[k]
                     : static_cast<const int64_t*>(part.ids)[k];
}

}  // namespace

// Where device memory is the host's. A CPU run buckets in its router and checks ids when they are
// read, so that plain loops do.

void Ops::check_ids(View<const IdCheck> lists, View<float> flag, View<int64_t> where) {
  for (const IdCheck& list : lists) {
    for (int64_t bag = 0; bag < list.bags; ++bag) {
      for (int64_t k = list.offsets[bag]; k < list.offsets[bag + 1]; ++k) {
        const int64_t id = list.ids[k];
        if (id >= 0 && id < list.rows) continue;
        list.ids[k] = 0;
        if (flag[0] != 0) continue;
        flag[0] = 1;
        where[0] = list.feature;
        where[1] = list.first_sample + bag;
        where[2] = id;
      }
    }
  }
}

void Ops::filter_ids(View<const IdFilter> filters) {
  for (const IdFilter& filter : filters) {
    int64_t kept = 0;
    int64_t* offset = filter.offsets;
    *offset = 0;
    for (const IdPart& part : filter.parts) {
      int64_t k = 0;
      for (int64_t bag = 0; bag < part.bags; ++bag) {
        const int64_t end = k + (part.lengths ? part.lengths[bag] : part.length);
        for (; k < end; ++k) {
          const int64_t row = id_at(part, k) - filter.first_row;
          if (row >= 0 && row < filter.rows) filter.ids[kept++] = row;
        }
        *++offset = kept;
      }
    }
  }
}

}  // namespace dlrm
