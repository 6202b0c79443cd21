#include "group_assembly.h"

#include <algorithm>
#include <numeric>

namespace dlrm {

GroupAssembly::GroupAssembly(const EmbeddingLayout& layout, int rank, int64_t id_bytes)
    : mine_(layout.owner(rank)),
      world_(static_cast<int>(layout.owners.size())),
      id_bytes_(id_bytes),
      ids_(mine_.groups.size() * layout.owners.size()),
      bags_(mine_.groups.size() * layout.owners.size()) {
  for (const RoutedGroup& group : mine_.groups) {
    weighted_.push_back(layout.features[static_cast<size_t>(group.feature)].weighted);
  }
}

void GroupAssembly::keep_sizes() {
  ids_.start();
  bags_.start();
}

size_t GroupAssembly::begin(View<const Message> messages, OwnerSide& owner) {
  open(messages);
  sort_by_group();
  if (ids_.started()) add_room();
  size_groups();
  return owner.reserve_groups(sizes_, id_bytes_ == 4, buffers_);
}

void GroupAssembly::finish(int threads, OwnerSide& owner) {
  const auto groups = static_cast<int64_t>(sizes_.size());
  bool sound = true;
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(&& : sound)
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
      open_message(message.bytes, groups, message.samples, id_bytes_, spans_, weighted_);
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
      received_[next_received_[group]++] = {&spans_[i], static_cast<int>(p),
                                            spans_[i].header.count};
    }
  }
}

/// Gives every part its capacity, and adds the parts that have room and no ids.
void GroupAssembly::add_room() {
  ids_.begin(all_samples_);
  bags_.begin(all_samples_);
  with_room_.clear();
  for (size_t g = 0; g < mine_.groups.size(); ++g) {
    const View<const Received> received = received_of(g);
    first_received_[g] = with_room_.size();
    auto next = received.begin();
    for (int p = 0; p < world_; ++p) {
      Received part{nullptr, p, 0};
      if (next != received.end() && next->source == p) part = *next++;
      const bool equal = part.span && part.span->header.lengths == BagLengths::kEqual;
      const bool has_samples = samples_[static_cast<size_t>(p)] > 0;
      if (has_samples && !equal) part.capacity = ids_.of(list_of(g, p), part.capacity);
      if (part.span || part.capacity > 0) with_room_.push_back(part);
    }
  }
  first_received_.back() = with_room_.size();
  received_.swap(with_room_);
}

void GroupAssembly::size_groups() {
  sizes_.assign(mine_.groups.size(), {});
  for (size_t g = 0; g < sizes_.size(); ++g) {
    OwnerSide::GroupSize& size = sizes_[g];
    int64_t non_empty = 0;
    for (const Received& received : received_of(g)) {
      if (received.span) size.ids += received.span->header.count;
      size.capacity += received.capacity;
      non_empty += most_bags(received);
    }
    size.bags = all_samples_;
    size.weighted = weighted_[g] != 0;
    if (mine_.by_source) size.pieces = int64_t{world_};
    if (!mine_.groups[g].skips_empty_bags) continue;
    size.bags = non_empty;
    size.pieces = static_cast<int64_t>(received_of(g).size());
    size.with_samples = true;
  }
}

template <class T>
bool GroupAssembly::assemble(size_t group, OwnerSide& owner) {
  const OwnerSide::GroupBuffer& buffer = buffers_[group];
  const BagCursor<T> cursor{static_cast<T*>(buffer.ids), static_cast<T*>(buffer.offsets),
                            buffer.samples};
  *cursor.offsets = 0;
  return mine_.groups[group].skips_empty_bags ? assemble_non_empty(group, cursor, owner)
                                              : assemble_every(group, cursor, owner);
}

/// One piece for each rank that has a bag here, or room for one.
template <class T>
bool GroupAssembly::assemble_non_empty(size_t group, BagCursor<T> cursor, OwnerSide& owner) {
  const T* const ids = cursor.ids;
  size_t piece = owner.first_piece[group];
  for (const Received& received : received_of(group)) {
    const BagCursor<T> first = cursor;
    if (!read_group(group, received, cursor)) return false;
    const int64_t count = cursor.offsets - first.offsets;
    const int64_t bags = bags_.of(list_of(group, received.source), count, most_bags(received));
    add_empty_bags(bags - count, cursor);
    if (cursor.samples) cursor.samples = std::fill_n(cursor.samples, bags - count, 0);
    owner.set_piece(piece++, received.source, ids, first.offsets, bags, received.capacity,
                    first.samples, buffers_[group].weights);
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
  for (int p = 0; p < world_; ++p) {
    Received part{nullptr, p, 0};
    if (next != received.end() && next->source == p) part = *next++;
    if (!read_group(group, part, cursor)) return false;
    const int64_t bags = samples_[static_cast<size_t>(p)];
    if (!part.span) add_empty_bags(bags, cursor);
    if (!mine_.by_source) continue;
    owner.set_piece(piece++, p, ids, first, bags, part.capacity, nullptr, buffers_[group].weights);
    first = cursor.offsets;
  }
  if (!mine_.by_source) {
    owner.set_piece(piece, OwnerSide::kEveryRank, ids, first, all_samples_, sizes_[group].capacity,
                    nullptr, buffers_[group].weights);
  }
  return true;
}

template <class T>
bool GroupAssembly::read_group(size_t group, const Received& received, BagCursor<T>& cursor) const {
  if (!received.span) return true;
  const GroupSpan& span = *received.span;
  const int64_t samples = samples_[static_cast<size_t>(received.source)];
  const RoutedGroup& routed = mine_.groups[group];
  const bool coded = span.header.lengths == BagLengths::kCoded;
  if (coded == mine_.slices[static_cast<size_t>(routed.slice)].all_rows) return false;
  if (span.weights) {
    const auto place = cursor.ids - static_cast<const T*>(buffers_[group].ids);
    std::copy_n(span.weights, span.header.count, buffers_[group].weights + place);
  }
  if (coded) return read_coded_bags(span, id_bytes_, samples, routed.skips_empty_bags, cursor);
  read_bags(span, id_bytes_, samples, cursor);
  return true;
}

}  // namespace dlrm
