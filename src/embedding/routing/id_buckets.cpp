#include "id_buckets.h"

#include <algorithm>

#include "dlrm/wire/sample_code.h"

namespace dlrm {
namespace {

constexpr int64_t kIdsAChunk = 16384;

/// The part of a message's group that holds these samples. `offsets` are those of all samples.
GroupSpan span_of(const GroupSpan& span, int64_t id_bytes, const int64_t* offsets, Range samples) {
  GroupSpan part = span;
  part.header.count = static_cast<int32_t>(offsets[samples.end] - offsets[samples.begin]);
  part.ids += (offsets[samples.begin] - offsets[0]) * id_bytes;
  if (part.lengths) part.lengths += samples.begin;
  return part;
}

/// The places of a bucket's next id, its sample, and the next bag if it is returned.
template <class Id>
struct Cursor {
  Id* ids;
  int32_t* samples;
  int32_t* returned;  ///< or null
  int64_t first_row;
  int32_t last = -1;  ///< the last sample that has an id here
};

}  // namespace

IdBuckets::IdBuckets(const EmbeddingLayout& layout)
    : layout_(layout),
      tables_(cuts_of_tables(layout)),
      headers_(static_cast<size_t>(layout.groups)),
      returned_(headers_.size()) {
  list_buckets();
}

void IdBuckets::list_buckets() {
  std::vector<char> returned;  // by group
  for (const OwnerLayout& owner : layout_.owners) {
    for (const RoutedGroup& group : owner.groups) returned.push_back(group.skips_empty_bags);
  }
  for (size_t f = 0; f < layout_.features.size(); ++f) {
    const TableCuts& table = cuts_of(f);
    const int first = layout_.first_feature[static_cast<size_t>(layout_.features[f].table)];
    first_bucket_.push_back(buckets_.size());
    int64_t of_feature = 0, most = 0;
    for (const Target& target : table.targets) {
      const size_t group =
          static_cast<size_t>(target.first_group) + (f - static_cast<size_t>(first));
      buckets_.push_back({group, f, target.first_row, target.all_rows, returned[group] != 0});
      of_feature += returned[group];
    }
    for (size_t p = 0; p < static_cast<size_t>(table.pieces()); ++p) {
      int64_t here = 0;
      for (const int t : table.targets_of(p)) here += buckets_of(f)[t].returned;
      most = std::max(most, here);
    }
    returning_.push_back(of_feature);
    returning_a_row_.push_back(most);
  }
  first_bucket_.push_back(buckets_.size());
}

size_t IdBuckets::most_returned(const LocalBags& bags, const std::vector<BagScan>& scans) const {
  int64_t most = 0;
  for (size_t f = 0; f < returning_.size(); ++f) {
    most += std::min(scans[f].count * returning_a_row_[f], bags.local.size() * returning_[f]);
  }
  return static_cast<size_t>(most);
}

size_t IdBuckets::most_returned(int64_t samples) const {
  int64_t most = 0;
  for (const int64_t buckets : returning_) most += samples * buckets;
  return static_cast<size_t>(most);
}

void IdBuckets::count(const LocalBags& bags, const std::vector<BagScan>& scans, int threads) {
  list_chunks(bags, scans);
  if (pieces_.size() < bags.ids.size()) pieces_.resize(bags.ids.size());
  const auto chunks = static_cast<int64_t>(chunks_.size());
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t c = 0; c < chunks; ++c) count_chunk(chunks_[static_cast<size_t>(c)], bags);
  place_chunks(scans);
}

void IdBuckets::list_chunks(const LocalBags& bags, const std::vector<BagScan>& scans) {
  chunks_.clear();
  size_t tallies = 0;
  for (size_t f = 0; f < scans.size(); ++f) {
    if (number_of_buckets(f) == 0) continue;
    const int64_t samples = bags.local.size();
    const int64_t parts = std::min((scans[f].count + kIdsAChunk - 1) / kIdsAChunk, samples);
    for (int64_t i = 0; i < parts; ++i) {
      chunks_.push_back({f, part_of(samples, i, parts), tallies});
      tallies += number_of_buckets(f);
    }
  }
  tallies_.assign(tallies, {});
}

/// Finds the piece of each id, and counts the ids of each bucket.
void IdBuckets::count_chunk(const Chunk& chunk, const LocalBags& bags) {
  const TableCuts& table = cuts_of(chunk.feature);
  if (table.pieces() == 1) return;
  const int64_t* offsets = feature_offsets(bags, chunk.feature);
  const View<Tally> tallies = tallies_of(chunk);
  std::vector<int32_t> counts(static_cast<size_t>(table.pieces()));
  const auto end = static_cast<size_t>(offsets[chunk.samples.end]);
  for (auto k = static_cast<size_t>(offsets[chunk.samples.begin]); k < end; ++k) {
    const size_t piece = table.piece_of(bags.ids[k]);
    pieces_[k] = static_cast<int32_t>(piece);
    ++counts[piece];
  }
  for (size_t p = 0; p < counts.size(); ++p) {
    for (const int t : table.targets_of(p)) tallies[static_cast<size_t>(t)].ids += counts[p];
  }
  if (returning_[chunk.feature] > 0) count_bags(chunk, offsets);
}

/// Counts the bags of each bucket that are not empty.
void IdBuckets::count_bags(const Chunk& chunk, const int64_t* offsets) {
  const TableCuts& table = cuts_of(chunk.feature);
  const View<Tally> of_chunk = tallies_of(chunk);
  std::vector<Tally> tallies(of_chunk.begin(), of_chunk.end());  // no other thread's cache lines
  for (int64_t i = chunk.samples.begin; i < chunk.samples.end; ++i) {
    const auto sample = static_cast<int32_t>(i);
    for (auto k = static_cast<size_t>(offsets[i]); k < static_cast<size_t>(offsets[i + 1]); ++k) {
      for (const int t : table.targets_of(static_cast<size_t>(pieces_[k]))) {
        Tally& tally = tallies[static_cast<size_t>(t)];
        tally.bags += tally.last != sample;
        tally.last = sample;
      }
    }
  }
  std::copy(tallies.begin(), tallies.end(), of_chunk.begin());
}

/// Replaces the counts of chunks by the positions at which they begin in their buckets.
void IdBuckets::place_chunks(const std::vector<BagScan>& scans) {
  for (Bucket& bucket : buckets_) bucket.ids = bucket.bags = 0;
  for (const Chunk& chunk : chunks_) {
    Bucket* const buckets = buckets_of(chunk.feature);
    const View<Tally> tallies = tallies_of(chunk);
    for (size_t t = 0; t < tallies.size(); ++t) {
      const Tally counted = tallies[t];
      tallies[t] = {static_cast<int32_t>(buckets[t].ids), static_cast<int32_t>(buckets[t].bags)};
      buckets[t].ids += counted.ids;
      buckets[t].bags += counted.bags;
    }
  }
  for (const Bucket& bucket : buckets_) {
    headers_[bucket.group] =
        bucket.all_rows ? whole_bags(scans[bucket.feature])
                        : GroupHeader{BagLengths::kCoded, 0, static_cast<int32_t>(bucket.ids)};
    headers_[bucket.group].weighted = layout_.features[bucket.feature].weighted;
    returned_[bucket.group] = bucket.returned ? bucket.bags : 0;
  }
}

void IdBuckets::fill(const LocalBags& bags, View<const GroupSpan> spans, int64_t id_bytes,
                     RequesterSide& requester, int threads) {
  aim(spans, requester);
  const auto chunks = static_cast<int64_t>(chunks_.size());
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t c = 0; c < chunks; ++c) {
    const Chunk& chunk = chunks_[static_cast<size_t>(c)];
    id_bytes == 8 ? fill_chunk<int64_t>(chunk, bags, spans)
                  : fill_chunk<int32_t>(chunk, bags, spans);
    if (layout_.features[chunk.feature].weighted) fill_weights(chunk, bags, spans);
  }
  const auto buckets = static_cast<int64_t>(buckets_.size());
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t i = 0; i < buckets; ++i) {
    const Bucket& bucket = buckets_[static_cast<size_t>(i)];
    if (bucket.ids == 0) continue;
    write_samples({bucket.to_samples, static_cast<size_t>(bucket.ids)}, bags.local.size(),
                  spans[bucket.group].code);
    if (bucket.returned) requester.scale_returned(bucket.group, bucket.feature);
  }
}

/// Sets where the ids, samples and bags of each bucket go.
void IdBuckets::aim(View<const GroupSpan> spans, RequesterSide& requester) {
  int64_t ids = 0;
  for (const Bucket& bucket : buckets_) ids += bucket.ids;
  if (samples_.size() < static_cast<size_t>(ids)) samples_.resize(static_cast<size_t>(ids));
  int32_t* next = samples_.data();
  for (Bucket& bucket : buckets_) {
    if (bucket.ids == 0) continue;
    bucket.to_ids = spans[bucket.group].ids;
    bucket.to_weights = spans[bucket.group].weights;
    bucket.to_samples = next;
    bucket.returned_bags = bucket.returned ? requester.samples_returned(bucket.group) : nullptr;
    next += bucket.ids;
  }
}

/// Writes the weights of a chunk's ids, in the places of its ids.
void IdBuckets::fill_weights(const Chunk& chunk, const LocalBags& bags,
                             View<const GroupSpan> spans) {
  const TableCuts& table = cuts_of(chunk.feature);
  const int64_t* offsets = feature_offsets(bags, chunk.feature);
  const auto begin = static_cast<size_t>(offsets[chunk.samples.begin]);
  const auto end = static_cast<size_t>(offsets[chunk.samples.end]);
  std::vector<float*> next;
  for (size_t t = 0; t < number_of_buckets(chunk.feature); ++t) {
    const Bucket& bucket = buckets_of(chunk.feature)[t];
    if (bucket.all_rows) {
      std::copy(bags.weights.begin() + begin, bags.weights.begin() + end,
                spans[bucket.group].weights + (offsets[chunk.samples.begin] - offsets[0]));
    }
    next.push_back(bucket.to_weights + tallies_[chunk.first_tally + t].ids);
  }
  if (table.pieces() == 1) return;
  for (size_t k = begin; k < end; ++k) {
    for (const int t : table.targets_of(static_cast<size_t>(pieces_[k]))) {
      *next[static_cast<size_t>(t)]++ = bags.weights[k];
    }
  }
}

template <class Id>
void IdBuckets::fill_chunk(const Chunk& chunk, const LocalBags& bags, View<const GroupSpan> spans) {
  const TableCuts& table = cuts_of(chunk.feature);
  const int64_t* offsets = feature_offsets(bags, chunk.feature);
  const Bucket* const buckets = buckets_of(chunk.feature);
  for (size_t t = 0; t < number_of_buckets(chunk.feature); ++t) {
    if (!buckets[t].all_rows) continue;
    const GroupSpan part = span_of(spans[buckets[t].group], sizeof(Id), offsets, chunk.samples);
    write_bags(part, sizeof(Id), bags.ids.data(), offsets + chunk.samples.begin,
               chunk.samples.size());
  }
  if (table.pieces() == 1) return;
  std::vector<Cursor<Id>> cursors;
  for (size_t t = 0; t < number_of_buckets(chunk.feature); ++t) {
    const Bucket& bucket = buckets[t];
    const Tally& first = tallies_[chunk.first_tally + t];
    cursors.push_back(
        {reinterpret_cast<Id*>(bucket.to_ids) + first.ids, bucket.to_samples + first.ids,
         bucket.returned ? bucket.returned_bags + first.bags : nullptr, bucket.first_row});
  }
  for (int64_t i = chunk.samples.begin; i < chunk.samples.end; ++i) {
    const auto sample = static_cast<int32_t>(i);
    for (auto k = static_cast<size_t>(offsets[i]); k < static_cast<size_t>(offsets[i + 1]); ++k) {
      for (const int t : table.targets_of(static_cast<size_t>(pieces_[k]))) {
        Cursor<Id>& next = cursors[static_cast<size_t>(t)];
        *next.ids++ = static_cast<Id>(bags.ids[k] - next.first_row);
        *next.samples++ = sample;
        if (!next.returned || next.last == sample) continue;
        *next.returned++ = sample;
        next.last = sample;
      }
    }
  }
}

}  // namespace dlrm
