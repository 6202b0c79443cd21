#include "id_checks.h"

namespace dlrm {
namespace {

IdCheck check_of(const IdGroup& ids, int64_t rows, size_t feature, int64_t first_sample) {
  IdCheck check;
  check.ids = const_cast<int64_t*>(ids.ids);
  check.offsets = ids.offsets;
  check.bags = ids.bags;
  check.capacity = ids.capacity;
  check.rows = rows;
  check.feature = static_cast<int64_t>(feature);
  check.first_sample = first_sample;
  return check;
}

/// Every rank's ids of every sharded feature.
void list_parts(const RoutedBatch& batch, const EmbeddingLayout& layout,
                std::vector<IdCheck>& checks) {
  const int64_t world = static_cast<int64_t>(layout.owners.size());
  size_t next = 0;
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (layout.features[f].replicated) continue;
    for (int64_t p = 0; p < world; ++p) {
      const IdPart& part = batch.owner.parts[next];
      IdCheck check;
      check.ids = const_cast<void*>(part.ids);
      check.lengths = part.lengths;
      check.length = part.length;
      check.narrow = part.narrow;
      check.bags = part.bags;
      check.capacity = batch.owner.part_sizes[next];
      check.rows = layout.features[f].rows;
      check.feature = static_cast<int64_t>(f);
      check.first_sample = part_of(batch.global_size, p, world).begin;
      checks.push_back(check);
      ++next;
    }
  }
}

void list_pieces(const RoutedBatch& batch, const OwnerLayout& mine, int64_t world,
                 const RowPlacement* placement, std::vector<IdCheck>& checks) {
  const OwnerSide& owner = batch.owner;
  for (size_t g = 0; g < mine.groups.size(); ++g) {
    const Slice& slice = mine.slices[static_cast<size_t>(mine.groups[g].slice)];
    const bool cached = slice.cache >= 0;
    const int64_t rows = cached ? placement->cache(slice.cache).map().slots() : slice.rows.size();
    for (size_t i = owner.first_piece[g]; i < owner.first_piece[g + 1]; ++i) {
      const int64_t first_sample = owner.sources[i] == OwnerSide::kEveryRank
                                       ? 0
                                       : part_of(batch.global_size, owner.sources[i], world).begin;
      checks.push_back(check_of(owner.pieces[i], rows, static_cast<size_t>(mine.groups[g].feature),
                                first_sample));
      checks.back().first_row = cached ? 0 : slice.rows.begin;
      checks.back().samples = owner.samples[i];
    }
  }
}

}  // namespace

void list_checks(const RoutedBatch& batch, const OwnerLayout& mine, const EmbeddingLayout& layout,
                 const RowPlacement* placement, std::vector<IdCheck>& checks) {
  checks.clear();
  const auto world = static_cast<int64_t>(layout.owners.size());
  batch.owner.filters.empty() ? list_pieces(batch, mine, world, placement, checks)
                              : list_parts(batch, layout, checks);
  for (size_t f = 0; f < batch.requester.kept.size(); ++f) {
    if (!layout.features[f].replicated) continue;
    checks.push_back(
        check_of(batch.requester.kept[f], layout.features[f].rows, f, batch.local.begin));
  }
}

}  // namespace dlrm
