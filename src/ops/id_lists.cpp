#include "dlrm/ops/ops.h"

namespace dlrm {
namespace {

template <class Ids>
int64_t id_at(const Ids& of, int64_t k) {
  return of.narrow ? static_cast<const int32_t*>(of.ids)[k]
                   : static_cast<const int64_t*>(of.ids)[k];
}

void make_zero(const IdCheck& list, int64_t k) {
  if (list.narrow) {
    static_cast<int32_t*>(list.ids)[k] = 0;
  } else {
    static_cast<int64_t*>(list.ids)[k] = 0;
  }
}

}  // namespace

// Default implementations, for executions whose device memory the host can read. Plain loops
// suffice, because on a CPU ids are checked when they are read and distributed by the router.

void Ops::run(const CheckIds& o) {
  const auto& [lists, flag, where] = o;
  for (const IdCheck& list : lists) {
    int64_t k = list.bags > 0 && list.offsets ? list.offsets[0] : 0;
    for (int64_t bag = 0; bag < list.bags; ++bag) {
      const int64_t end = list.offsets   ? list.offsets[bag + 1]
                          : list.lengths ? k + list.lengths[bag]
                                         : k + list.length;
      for (; k < end; ++k) {
        const int64_t id = id_at(list, k);
        if (id >= 0 && id < list.rows) continue;
        make_zero(list, k);
        if (flag[0] != 0) continue;
        flag[0] = 1;
        where[0] = list.feature;
        where[1] = list.first_sample + (list.samples ? list.samples[bag] : bag);
        where[2] = list.first_row + id;
      }
    }
  }
}

void Ops::run(const Unpack& o) {
  for (const PackedList& list : o.lists) {
    for (int64_t i = 0; i < list.count; ++i) {
      list.to[i] = list.from ? list.from[i] : i * list.step;
    }
  }
}

void Ops::run(const FilterIds& o) {
  for (const IdFilter& filter : o.filters) {
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
