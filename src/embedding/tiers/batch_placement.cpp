#include "batch_placement.h"

#include <algorithm>

namespace dlrm {

BatchPlacement::BatchPlacement(Communicator& comm, const EmbeddingLayout& layout,
                               RowPlacement& placement)
    : layout_(layout),
      placement_(placement),
      comm_(comm.duplicate()),
      sizes_(static_cast<size_t>(comm.size()), sizeof(FastNeed)) {
  for (int q = 0; q < comm.size(); ++q) {
    offsets_.push_back(q * static_cast<int64_t>(sizeof(FastNeed)));
  }
}

void BatchPlacement::place(const OwnerSide& owner, Batch& batch) {
  const OwnerLayout& mine = layout_.owner(comm_->rank());
  std::vector<PlacedIds> ids;
  std::vector<PlacedOrder> orders;
  size_t number = 0;
  for (const Slice& slice : mine.slices) {
    if (!slice.ordered) continue;
    const OwnerSide::RowOrders& order = owner.orders[number++];
    if (slice.cache < 0) continue;
    orders.push_back({slice.cache, order.by_row, order.by_slot, slice.cuts, order.first_ids});
  }
  for (size_t g = 0; g < owner.host_ids.size(); ++g) {
    const int cache = mine.slices[static_cast<size_t>(mine.groups[g].slice)].cache;
    const OwnerSide::HostIds& of_group = owner.host_ids[g];
    if (cache >= 0) ids.push_back({cache, of_group.ids, of_group.count, of_group.narrow});
  }
  if (first_window_ && !placement_.counts()) {
    first_window_needs_ = std::max(first_window_needs_, placement_.count_fast_needed(ids));
  }
  batch.number = placement_.place(std::move(ids), std::move(orders));
}

Pending BatchPlacement::start_agreeing(Batch& batch) {
  batch.needed = placement_.fast_needed(batch.number);
  if (first_window_) {
    first_window_needs_ = std::max(first_window_needs_, batch.needed);
  }
  batch.by_rank.resize(sizes_.size());
  return comm_->start_allgatherv(&batch.needed, batch.by_rank.data(), sizes_, offsets_);
}

void BatchPlacement::finish_agreeing(Batch& batch) {
  batch.needed = *std::max_element(batch.by_rank.begin(), batch.by_rank.end());
}

void BatchPlacement::end_first_window(Communicator& idle) {
  std::vector<FastNeed> by_rank(sizes_.size());
  idle.start_allgatherv(&first_window_needs_, by_rank.data(), sizes_, offsets_).wait();
  const FastNeed needed = *std::max_element(by_rank.begin(), by_rank.end());
  if (needed.bytes > 0) throw rows_do_not_fit(ExitCode::kUsage, needed);
  first_window_ = false;
}

void BatchPlacement::await(const Batch& oldest) {
  if (oldest.needed.bytes > 0) throw rows_do_not_fit(ExitCode::kFailure, oldest.needed);
  placement_.await();
}

RowsDoNotFit BatchPlacement::rows_do_not_fit(ExitCode code, const FastNeed& needed) const {
  return {code, fmt::format("{}: too small for the rows of a batch; {}KiB would do",
                            key_of(needed, layout_.table_names), (needed.bytes + 1023) / 1024)};
}

}  // namespace dlrm
