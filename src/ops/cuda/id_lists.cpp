#include "kernels/id_lists.h"

#include "dlrm/device/cuda/sort.h"

#include "cuda/cuda_ops.h"
#include "cuda/parts.h"

namespace dlrm {

void CudaOps::run(const CheckIds& o) {
  const auto& [lists, flag, where] = o;
  std::vector<kernels::CheckList>& with_ids = parts_->embedding.checks;
  std::vector<uint32_t>& first_block = parts_->embedding.id_blocks;
  with_ids.clear();
  first_block.assign(1, 0);
  for (const IdCheck& list : lists) {
    if (list.bags == 0) continue;
    kernels::CheckList c{};
    c.ids = list.ids;
    c.offsets = list.offsets;
    c.lengths = list.lengths;
    c.samples = list.samples;
    c.bags = list.bags;
    c.count = list.capacity;
    c.rows = list.rows;
    c.feature = list.feature;
    c.first_sample = list.first_sample;
    c.first_row = list.first_row;
    c.length = list.length;
    c.narrow = list.narrow;
    with_ids.push_back(c);
    first_block.push_back(first_block.back() + kernels::check_blocks(list.capacity));
  }
  auto* first_bad = parts_->scratch.of<unsigned long long>("first bad id", 1);
  DLRM_CUDA_CHECK(cudaMemsetAsync(first_bad, 0xff, sizeof(*first_bad), native_));
  kernels::check_ids(parts_->lists.of(with_ids), parts_->lists.of(first_block),
                     static_cast<int>(with_ids.size()), first_block.back(), first_bad, flag.data(),
                     where.data(), native_);
}

void CudaOps::run(const Unpack& o) {
  std::vector<kernels::UnpackList>& of = parts_->embedding.unpacked;
  std::vector<uint32_t>& first_block = parts_->embedding.id_blocks;
  of.clear();
  first_block.assign(1, 0);
  for (const PackedList& list : o.lists) {
    if (list.count == 0) continue;
    of.push_back({list.from, list.to, list.count, list.step});
    first_block.push_back(first_block.back() + kernels::unpack_blocks(list.count));
  }
  if (of.empty()) return;
  kernels::unpack(parts_->lists.of(of), parts_->lists.of(first_block), static_cast<int>(of.size()),
                  first_block.back(), native_);
}

void CudaOps::run(const FilterIds& o) {
  std::vector<kernels::FilterPart>& parts = parts_->embedding.filter_parts;
  std::vector<uint32_t>& first_block = parts_->embedding.id_blocks;
  parts.clear();
  first_block.assign(1, 0);
  int64_t bags = 0;
  for (const IdFilter& filter : o.filters) {
    const int64_t first_of_filter = bags;
    for (const IdPart& part : filter.parts) {
      if (part.bags == 0) continue;
      kernels::FilterPart p{};
      p.ids = part.ids;
      p.lengths = part.lengths;
      p.kept = filter.ids;
      p.offsets = filter.offsets + (bags - first_of_filter);
      p.bags = part.bags;
      p.first_bag = bags;
      p.first_of_filter = first_of_filter;
      p.first_row = filter.first_row;
      p.rows = filter.rows;
      p.length = part.length;
      p.narrow = part.narrow;
      parts.push_back(p);
      first_block.push_back(first_block.back() + kernels::filter_blocks(part.bags));
      bags += part.bags;
    }
    if (bags > first_of_filter) continue;
    DLRM_CUDA_CHECK(cudaMemsetAsync(filter.offsets, 0, sizeof(int64_t), native_));
  }
  if (parts.empty()) return;
  kernels::FilterList list{};
  list.parts = parts_->lists.of(parts);
  list.first_block = parts_->lists.of(first_block);
  list.count = static_cast<int32_t>(parts.size());
  list.bags = bags;
  list.starts = parts_->scratch.of<int64_t>("starts of bags", bags + 1);
  list.kept = parts_->scratch.of<int64_t>("kept ids of bags", bags + 1);
  const size_t bytes = cuda::sum_scratch(bags + 1);
  void* room = parts_->scratch.bytes("sorting", bytes);
  kernels::bag_lengths(list, first_block.back(), native_);
  cuda::exclusive_sum(list.starts, list.starts, bags + 1, room, bytes, native_);
  kernels::count_kept(list, first_block.back(), native_);
  cuda::exclusive_sum(list.kept, list.kept, bags + 1, room, bytes, native_);
  kernels::write_kept(list, first_block.back(), native_);
}

}  // namespace dlrm
