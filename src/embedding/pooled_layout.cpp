#include "pooled_layout.h"

namespace dlrm {

PooledLayout::PooledLayout(const EmbeddingLayout& layout, int rank) : layout_(layout), rank_(rank) {
  size_t blocks = 0;
  for (const OwnerLayout& owner : layout.owners) blocks += owner.blocks.size();
  requested_at_.resize(blocks);
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
  const size_t world = layout_.owners.size();
  pieces_ = batch.owner.pieces_per_group;
  owned_at_.resize(mine.blocks.size() * pieces_);
  int64_t at = 0;
  for (size_t p = 0; p < world; ++p) {
    const Range samples =
        part_of(batch.global_size, static_cast<int64_t>(p), static_cast<int64_t>(world));
    const int64_t start = at;
    at += samples.size() * mine.width;
    for (size_t k = 0; p < pieces_ && k < mine.blocks.size(); ++k) {
      const PooledBlock& block = mine.blocks[k];
      owned_at_[k * pieces_ + p] = block.skips_empty_bags ? at : start + block.column;
      if (!block.skips_empty_bags) continue;
      at += batch.owner.pieces[static_cast<size_t>(block.group) * pieces_ + p].bags * block.width;
    }
    owned_end_[p] = at;
  }
}

void PooledLayout::place_requested(const RoutedBatch& batch) {
  int64_t at = 0;
  size_t number = 0;
  for (size_t q = 0; q < layout_.owners.size(); ++q) {
    const OwnerLayout& owner = layout_.owners[q];
    const int64_t start = at;
    at += batch.local.size() * owner.width;
    for (const PooledBlock& block : owner.blocks) {
      requested_at_[number++] = block.skips_empty_bags ? at : start + block.column;
      if (!block.skips_empty_bags) continue;
      const auto group = static_cast<size_t>(owner.first_group + block.group);
      at += batch.requester.returned[group].count * block.width;
    }
    requested_end_[q] = at;
  }
}

void PooledLayout::fill(const std::vector<int64_t>& ends, size_t element_bytes,
                        std::vector<int64_t>& sizes, std::vector<int64_t>& offsets) const {
  const auto bytes = static_cast<int64_t>(element_bytes);
  for (size_t i = 0; i < ends.size(); ++i) {
    offsets[i] = (i == 0 ? 0 : ends[i - 1]) * bytes;
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
