#include "checked/checked_ops.h"
#include "checked/host_bags.h"

namespace dlrm::checked {
namespace {

double exact(int64_t, int64_t) { return 0; }

}  // namespace

void CheckedOps::check(const MaxBagBackward& o) {
  if (o.ids.bags == 0) return chosen_->run(o);
  BagGroup named;
  named.table = o.table;
  named.ids = o.ids.ids;
  named.offsets = o.ids.offsets;
  named.bags = o.ids.bags;
  const HostBags bags(host_, named);
  const Copy pooled = host_.of(o.pooled), want = host_.of(o.gradients);  // the rest stays
  chosen_->run(o);
  const BagGroup again = bags.group(pooled);
  reference_.max_bag_backward(again.table, {again.ids, again.offsets, again.bags, o.ids.capacity},
                              pooled.matrix(), want.matrix());
  expect_close(subject("max_bag_backward",
                       fmt::format("[{} x {}], {} ids", o.ids.bags, o.table.width, o.ids.capacity)),
               "gradient", host_.of(o.gradients).matrix(), want.matrix(), exact);
}

void CheckedOps::check(const SeparateIds& o) {
  chosen_->run(o);
  if (o.ids.bags == 0) return;
  IdGroup ids = o.ids;
  const std::vector<int64_t> offsets = host_.list(ids.offsets, ids.bags + 1);
  ids.offsets = offsets.data();
  std::vector<int64_t> want(o.offsets.size());
  reference_.separate_ids(ids, want);
  const std::vector<int64_t> got = host_.of(o.offsets);
  for (size_t k = 0; k < want.size(); ++k) {
    if (got[k] == want[k]) continue;
    disagree(subject("separate_ids", fmt::format("of {} bags", ids.bags)),
             fmt::format("offset {}", k), static_cast<double>(got[k]),
             static_cast<double>(want[k]));
  }
}

}  // namespace dlrm::checked
