#include "pooled_layout.h"

namespace dlrm {

PooledLayout::PooledLayout(const EmbeddingLayout& layout, int rank, const UnitsOf& units_of)
    : layout_(layout), rank_(rank) {
  first_block_.push_back(0);
  for (size_t q = 0; q < layout.owners.size(); ++q) {
    int64_t columns = 0;
    for (const PooledBlock& block : layout.owners[q].returned) {
      const auto width = static_cast<int32_t>(units_of(static_cast<int>(q), block) * block.width);
      blocks_.push_back(
          {block.skips_empty_bags ? block.group : -1, width, static_cast<int32_t>(columns)});
      if (!block.skips_empty_bags) columns += width;
    }
    width_.push_back(columns);
    first_block_.push_back(blocks_.size());
  }
  requested_at_.resize(blocks_.size());
  const size_t world = layout.owners.size();
  for (auto* of_ranks :
       {&owned_end_, &requested_end_, &exchange_.send_bytes, &exchange_.send_offsets,
        &exchange_.receive_bytes, &exchange_.receive_offsets}) {
    of_ranks->resize(world);
  }
}

void PooledLayout::set(const RoutedBatch& batch, BufferPositions begin) {
  begin_ = begin;
  place_owned(batch);
  place_requested(batch);
}

void PooledLayout::place_owned(const RoutedBatch& batch) {
  const OwnerLayout& mine = layout_.owner(rank_);
  const OwnerSide& owner = batch.owner;
  const auto world = static_cast<int64_t>(layout_.owners.size());
  const size_t groups = mine.groups.size(), blocks = mine.returned.size();
  if (mine.by_source) {
    bags_.assign(static_cast<size_t>(world) * groups, 0);
    owned_at_.resize(static_cast<size_t>(world) * blocks);
    for (size_t g = 0; g < groups; ++g) {
      for (size_t i = owner.first_piece[g]; i < owner.first_piece[g + 1]; ++i) {
        bags_[static_cast<size_t>(owner.sources[i]) * groups + g] =
            static_cast<int32_t>(owner.pieces[i].bags);
      }
    }
  }
  const auto self = static_cast<size_t>(rank_);
  const BlockSize* sizes = blocks_.data() + first_block_[self];
  of_every_bag_.owned = batch.global_size * width_[self];
  int64_t at = begin_.owned;
  for (size_t p = 0; p < owned_end_.size(); ++p) {
    at += part_of(batch.global_size, static_cast<int64_t>(p), world).size() * width_[self];
    for (size_t k = 0; mine.by_source && k < blocks; ++k) {
      if (sizes[k].group < 0) continue;
      owned_at_[p * blocks + k] = at;
      at += int64_t{bags_[p * groups + static_cast<size_t>(sizes[k].group)]} * sizes[k].width;
    }
    owned_end_[p] = at;
  }
}

void PooledLayout::place_requested(const RoutedBatch& batch) {
  of_every_bag_.requested = 0;
  int64_t at = begin_.requested;
  for (size_t q = 0; q < layout_.owners.size(); ++q) {
    const OwnerLayout& owner = layout_.owners[q];
    const ReturnedBags* returned = batch.requester.returned.data() + owner.first_group;
    const int64_t of_every_bag = batch.local.size() * width_[q];
    of_every_bag_.requested += of_every_bag;
    at += of_every_bag;
    for (size_t k = first_block_[q]; owner.by_source && k < first_block_[q + 1]; ++k) {
      if (blocks_[k].group < 0) continue;
      requested_at_[k] = at;
      at += returned[blocks_[k].group].count * blocks_[k].width;
    }
    requested_end_[q] = at;
  }
}

void PooledLayout::fill(const std::vector<int64_t>& ends, int64_t begin, size_t unit_bytes,
                        std::vector<int64_t>& sizes, std::vector<int64_t>& offsets) const {
  const auto bytes = static_cast<int64_t>(unit_bytes);
  for (size_t i = 0; i < ends.size(); ++i) {
    offsets[i] = begin * bytes;
    sizes[i] = (ends[i] - begin) * bytes;
    begin = ends[i];
  }
  sizes[static_cast<size_t>(rank_)] = 0;
}

const ExchangeLayout& PooledLayout::to_requesters(size_t unit_bytes) {
  fill(owned_end_, begin_.owned, unit_bytes, exchange_.send_bytes, exchange_.send_offsets);
  fill(requested_end_, begin_.requested, unit_bytes, exchange_.receive_bytes,
       exchange_.receive_offsets);
  return exchange_;
}

const ExchangeLayout& PooledLayout::to_owners(size_t unit_bytes) {
  fill(requested_end_, begin_.requested, unit_bytes, exchange_.send_bytes, exchange_.send_offsets);
  fill(owned_end_, begin_.owned, unit_bytes, exchange_.receive_bytes, exchange_.receive_offsets);
  return exchange_;
}

}  // namespace dlrm
