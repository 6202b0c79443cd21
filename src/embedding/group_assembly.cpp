#include "group_assembly.h"

#include <algorithm>
#include <numeric>

namespace dlrm {

size_t GroupAssembly::begin(View<const Message> messages, OwnerSide& owner) {
  open(messages);
  sort_by_group();
  size_groups();
  return owner.reserve_groups(sizes_, id_bytes_ == 4, buffers_);
}

void GroupAssembly::finish(int threads, OwnerSide& owner) {
  const auto groups = static_cast<int64_t>(sizes_.size());
  bool sound = true;
#pragma omp parallel for schedule(dynamic, 16) num_threads(threads) reduction(&& : sound)
  for (int64_t g = 0; g < groups; ++g) {
    const auto group = static_cast<size_t>(g);
    sound = (owner.narrow() ? assemble<int32_t>(group, owner) : assemble<int64_t>(group, owner)) &&
            sound;
  }
  if (!sound) throw_damaged_message();
}

void GroupAssembly::open(View<const Message> messages) {
  const auto groups = static_cast<int64_t>(mine_.groups.size());
  spans_.clear();
  samples_.clear();
  end_of_source_.clear();
  all_samples_ = 0;
  for (const Message& message : messages) {
    if (message.samples > 0) {
      open_message(message.bytes, groups, message.samples, id_bytes_, spans_);
    }
    samples_.push_back(message.samples);
    all_samples_ += message.samples;
    end_of_source_.push_back(spans_.size());
  }
}

void GroupAssembly::sort_by_group() {
  first_received_.assign(mine_.groups.size() + 1, 0);
  for (const GroupSpan& span : spans_) ++first_received_[static_cast<size_t>(span.group) + 1];
  std::partial_sum(first_received_.begin(), first_received_.end(), first_received_.begin());
  next_received_.assign(first_received_.begin(), first_received_.end() - 1);
  received_.resize(spans_.size());
  size_t i = 0;
  for (size_t p = 0; p < end_of_source_.size(); ++p) {
    for (; i < end_of_source_[p]; ++i) {
      const auto group = static_cast<size_t>(spans_[i].group);
      received_[next_received_[group]++] = {&spans_[i], static_cast<int>(p)};
    }
  }
}

void GroupAssembly::size_groups() {
  sizes_.assign(mine_.groups.size(), {});
  for (const GroupSpan& span : spans_) {
    sizes_[static_cast<size_t>(span.group)].ids += span.header.count;
  }
  for (size_t g = 0; g < sizes_.size(); ++g) {
    OwnerSide::GroupSize& size = sizes_[g];
    size.bags = all_samples_;
    if (mine_.by_source) size.pieces = static_cast<int64_t>(samples_.size());
    if (!mine_.groups[g].skips_empty_bags) continue;
    size.bags = std::min(all_samples_, size.ids);
    size.pieces = static_cast<int64_t>(received_of(g).size());
    size.with_samples = true;
  }
}

template <class T>
bool GroupAssembly::assemble(size_t group, OwnerSide& owner) const {
  const OwnerSide::GroupBuffer& buffer = buffers_[group];
  const BagCursor<T> cursor{static_cast<T*>(buffer.ids), static_cast<T*>(buffer.offsets),
                            buffer.samples};
  *cursor.offsets = 0;
  return mine_.groups[group].skips_empty_bags ? assemble_non_empty(group, cursor, owner)
                                              : assemble_every(group, cursor, owner);
}

/// One piece for each rank that has a bag here.
template <class T>
bool GroupAssembly::assemble_non_empty(size_t group, BagCursor<T> cursor, OwnerSide& owner) const {
  const T* const ids = cursor.ids;
  size_t piece = owner.first_piece[group];
  for (const Received& received : received_of(group)) {
    const BagCursor<T> first = cursor;
    const int64_t samples = samples_[static_cast<size_t>(received.source)];
    if (!read_group(group, *received.span, samples, cursor)) return false;
    owner.set_piece(piece++, received.source, ids, first.offsets, cursor.offsets - first.offsets,
                    first.samples);
  }
  return true;
}

/// One piece of all ranks, or one for each rank.
template <class T>
bool GroupAssembly::assemble_every(size_t group, BagCursor<T> cursor, OwnerSide& owner) const {
  const T* const ids = cursor.ids;
  const T* first = cursor.offsets;
  size_t piece = owner.first_piece[group];
  const View<const Received> received = received_of(group);
  auto next = received.begin();
  for (size_t p = 0; p < samples_.size(); ++p) {
    if (next != received.end() && next->source == static_cast<int>(p)) {
      if (!read_group(group, *next->span, samples_[p], cursor)) return false;
      ++next;
    } else {
      add_empty_bags(samples_[p], cursor);
    }
    if (!mine_.by_source) continue;
    owner.set_piece(piece++, static_cast<int>(p), ids, first, samples_[p]);
    first = cursor.offsets;
  }
  if (!mine_.by_source) owner.set_piece(piece, OwnerSide::kEveryRank, ids, first, all_samples_);
  return true;
}

template <class T>
bool GroupAssembly::read_group(size_t group, const GroupSpan& span, int64_t samples,
                               BagCursor<T>& cursor) const {
  const RoutedGroup& routed = mine_.groups[group];
  const bool coded = span.header.lengths == BagLengths::kCoded;
  if (coded == mine_.slices[static_cast<size_t>(routed.slice)].all_rows) return false;
  if (coded) return read_coded_bags(span, id_bytes_, samples, routed.skips_empty_bags, cursor);
  read_bags(span, id_bytes_, samples, cursor);
  return true;
}

}  // namespace dlrm
