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
  complete_parts();
  size_groups();
  return owner.reserve_groups(sizes_, id_bytes_ == 4, buffers_);
}

void GroupAssembly::finish(int threads, OwnerSide& owner) {
  for (size_t g = 0; g < sizes_.size(); ++g) {
    if (mine_.groups[g].skips_empty_bags) continue;
    owner.narrow() ? begin_bags<int32_t>(g, owner) : begin_bags<int64_t>(g, owner);
  }
  const auto parts = static_cast<int64_t>(parts_.size());
  bool sound = true;
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(&& : sound)
  for (int64_t i = 0; i < parts; ++i) {
    const auto part = static_cast<size_t>(i);
    sound =
        (owner.narrow() ? assemble<int32_t>(part, owner) : assemble<int64_t>(part, owner)) && sound;
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
  first_part_.assign(mine_.groups.size() + 1, 0);
  for (const GroupSpan& span : spans_) ++first_part_[static_cast<size_t>(span.group) + 1];
  std::partial_sum(first_part_.begin(), first_part_.end(), first_part_.begin());
  next_part_.assign(first_part_.begin(), first_part_.end() - 1);
  parts_.resize(spans_.size());
  size_t i = 0;
  for (size_t p = 0; p < end_of_source_.size(); ++p) {
    for (; i < end_of_source_[p]; ++i) {
      const GroupSpan& span = spans_[i];
      const auto group = static_cast<size_t>(span.group);
      parts_[next_part_[group]++] = {&span, group, static_cast<int>(p), span.header.count};
    }
  }
}

/// Gives every part its capacity, and adds the parts without ids: those that have room for some,
/// and in groups of all bags those of all other ranks.
void GroupAssembly::complete_parts() {
  ids_.begin(all_samples_);
  bags_.begin(all_samples_);
  complete_.clear();
  for (size_t g = 0; g < mine_.groups.size(); ++g) {
    const bool all_bags = !mine_.groups[g].skips_empty_bags;
    const View<const Part> received = parts_of(g);
    first_part_[g] = complete_.size();
    if (!all_bags && !ids_.started()) {
      complete_.insert(complete_.end(), received.begin(), received.end());
      continue;
    }
    auto next = received.begin();
    for (int p = 0; p < world_; ++p) {
      Part part{nullptr, g, p, 0};
      if (next != received.end() && next->source == p) part = *next++;
      const bool equal = part.span && part.span->header.lengths == BagLengths::kEqual;
      if (samples_of(part) > 0 && !equal) part.capacity = ids_.of(list_of(part), part.capacity);
      if (all_bags || part.span || part.capacity > 0) complete_.push_back(part);
    }
  }
  first_part_.back() = complete_.size();
  parts_.swap(complete_);
}

/// Sets where each part begins, so that threads may assemble them in any order. How many bags of a
/// part are not empty is not known yet, so it gets room for the most.
void GroupAssembly::size_groups() {
  sizes_.assign(mine_.groups.size(), {});
  for (size_t g = 0; g < sizes_.size(); ++g) {
    OwnerSide::GroupSize& size = sizes_[g];
    const bool all_bags = !mine_.groups[g].skips_empty_bags;
    for (size_t i = first_part_[g]; i < first_part_[g + 1]; ++i) {
      Part& part = parts_[i];
      part.first_id = size.ids;
      part.first_bag = size.bags;
      if (part.span) size.ids += part.span->header.count;
      size.capacity += part.capacity;
      size.bags += all_bags ? samples_of(part) : most_bags(part) + 1;
    }
    size.weighted = weighted_[g] != 0;
    if (!all_bags || mine_.by_source) size.pieces = static_cast<int64_t>(parts_of(g).size());
    if (all_bags) continue;
    size.bags = std::max<int64_t>(size.bags - 1, 0);
    size.with_samples = true;
  }
}

/// Starts the bags of all samples of a group, of which each part continues those before.
template <class T>
void GroupAssembly::begin_bags(size_t group, OwnerSide& owner) {
  const OwnerSide::GroupBuffer& buffer = buffers_[group];
  auto* const offsets = static_cast<T*>(buffer.offsets);
  *offsets = 0;
  if (mine_.by_source) return;
  owner.set_piece(owner.first_piece[group], OwnerSide::kEveryRank, static_cast<T*>(buffer.ids),
                  offsets, all_samples_, sizes_[group].capacity, nullptr, buffer.weights);
}

template <class T>
bool GroupAssembly::assemble(size_t number, OwnerSide& owner) {
  const Part& part = parts_[number];
  const OwnerSide::GroupBuffer& buffer = buffers_[part.group];
  T* const ids = static_cast<T*>(buffer.ids);
  T* const offsets = static_cast<T*>(buffer.offsets) + part.first_bag;
  int32_t* const samples = buffer.samples ? buffer.samples + part.first_bag : nullptr;
  BagCursor<T> cursor{ids + part.first_id, offsets, samples, static_cast<T>(part.first_id)};
  const bool all_bags = !mine_.groups[part.group].skips_empty_bags;
  if (!all_bags) *offsets = cursor.end;
  if (part.span && !read(part, cursor)) return false;
  int64_t bags = samples_of(part);
  if (!all_bags) {
    const int64_t count = cursor.offsets - offsets;
    bags = bags_.of(list_of(part), count, most_bags(part));
    if (samples) std::fill_n(cursor.samples, bags - count, 0);
  }
  add_empty_bags(bags - (cursor.offsets - offsets), cursor);
  if (all_bags && !mine_.by_source) return true;  // begin_bags() has set the piece
  owner.set_piece(owner.first_piece[part.group] + (number - first_part_[part.group]), part.source,
                  ids, offsets, bags, part.capacity, samples, buffer.weights);
  return true;
}

template <class T>
bool GroupAssembly::read(const Part& part, BagCursor<T>& cursor) const {
  const GroupSpan& span = *part.span;
  const int64_t samples = samples_of(part);
  const RoutedGroup& group = mine_.groups[part.group];
  const bool coded = span.header.lengths == BagLengths::kCoded;
  if (coded == mine_.slices[static_cast<size_t>(group.slice)].all_rows) return false;
  if (span.weights) {
    std::copy_n(span.weights, span.header.count, buffers_[part.group].weights + part.first_id);
  }
  return coded ? read_coded_bags(span, id_bytes_, samples, group.skips_empty_bags, cursor)
               : read_bags(span, id_bytes_, samples, cursor);
}

}  // namespace dlrm
