#include "pooled_layout.h"

namespace dlrm {

PooledLayout::PooledLayout(const EmbeddingLayout& layout, int rank) : layout_(layout), rank_(rank) {
  first_block_.push_back(0);
  for (const OwnerLayout& owner : layout.owners) {
    for (const PooledBlock& block : owner.returned) {
      blocks_.push_back(
          {block.skips_empty_bags ? block.group : -1, static_cast<int32_t>(block.width)});
    }
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

void PooledLayout::set(const RoutedBatch& batch) {
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
  const BlockSize* sizes = blocks_.data() + first_block_[static_cast<size_t>(rank_)];
  owned_of_every_bag_ = batch.global_size * mine.width;
  int64_t at = 0;
  for (size_t p = 0; p < owned_end_.size(); ++p) {
    at += part_of(batch.global_size, static_cast<int64_t>(p), world).size() * mine.width;
    for (size_t k = 0; mine.by_source && k < blocks; ++k) {
      if (sizes[k].group < 0) continue;
      owned_at_[p * blocks + k] = at;
      at += int64_t{bags_[p * groups + static_cast<size_t>(sizes[k].group)]} * sizes[k].width;
    }
    owned_end_[p] = at;
  }
}

void PooledLayout::place_requested(const RoutedBatch& batch) {
  requested_of_every_bag_ = 0;
  int64_t at = 0;
  for (size_t q = 0; q < layout_.owners.size(); ++q) {
    const OwnerLayout& owner = layout_.owners[q];
    const ReturnedBags* returned = batch.requester.returned.data() + owner.first_group;
    const int64_t of_every_bag = batch.local.size() * owner.width;
    requested_of_every_bag_ += of_every_bag;
    at += of_every_bag;
    for (size_t k = first_block_[q]; owner.by_source && k < first_block_[q + 1]; ++k) {
      if (blocks_[k].group < 0) continue;
      requested_at_[k] = at;
      at += returned[blocks_[k].group].count * blocks_[k].width;
    }
    requested_end_[q] = at;
  }
}

void PooledLayout::fill(const std::vector<int64_t>& ends, size_t element_bytes,
                        std::vector<int64_t>& sizes, std::vector<int64_t>& offsets) const {
  const auto bytes = static_cast<int64_t>(element_bytes);
  for (size_t i = 0; i < ends.size(); ++i) {
    offsets[i] = start_of(ends, i) * bytes;
    sizes[i] = ends[i] * bytes - offsets[i];
  }
  sizes[static_cast<size_t>(rank_)] = 0;
}

const ExchangeLayout& PooledLayout::forward(size_t element_bytes) {
  fill(owned_end_, element_bytes, exchange_.send_bytes, exchange_.send_offsets);
  fill(requested_end_, element_bytes, exchange_.receive_bytes, exchange_.receive_offsets);
  return exchange_;
}

const ExchangeLayout& PooledLayout::backward(size_t element_bytes) {
  fill(requested_end_, element_bytes, exchange_.send_bytes, exchange_.send_offsets);
  fill(owned_end_, element_bytes, exchange_.receive_bytes, exchange_.receive_offsets);
  return exchange_;
}

}  // namespace dlrm
