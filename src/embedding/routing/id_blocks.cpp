#include "id_blocks.h"

#include <algorithm>
#include <cstring>

#include "dlrm/wire/message_bytes.h"

namespace dlrm {
namespace {

constexpr int64_t kCountedAChunk = 16384;

}  // namespace

IdBlocks::IdBlocks(const EmbeddingLayout& layout, int64_t id_bytes)
    : layout_(layout),
      id_bytes_(id_bytes),
      tables_(cuts_of_tables(layout)),
      place_of_(layout.features.size(), -1) {
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (layout.features[f].replicated) continue;
    place_of_[f] = static_cast<int64_t>(sent_.size());
    sent_.push_back(f);
  }
  words_ = kIdBlockSizes * static_cast<int64_t>(sent_.size());
  for (const size_t f : sent_) {
    const int64_t pieces = cuts_of(f).pieces();
    first_piece_.push_back(pieces > 1 ? words_ : -1);
    if (pieces > 1) words_ += pieces;
  }
}

bool IdBlocks::alike(View<const int64_t> a, View<const int64_t> b) const {
  return std::equal(a.begin(), a.begin() + kIdBlockSizes * static_cast<int64_t>(sent_.size()),
                    b.begin());
}

int64_t IdBlocks::ids_in(View<const int64_t> words, size_t feature, Range rows) const {
  const size_t place = place_of(feature);
  const int64_t first = first_piece_[place];
  if (first < 0) return sizes(words, place).ids;
  const std::vector<int64_t>& cuts = cuts_of(feature).cuts;
  int64_t ids = 0;
  auto cut = std::lower_bound(cuts.begin(), cuts.end(), rows.begin);
  for (; *cut < rows.end; ++cut) ids += words[static_cast<size_t>(first + (cut - cuts.begin()))];
  return ids;
}

int64_t IdBlocks::place(View<const int64_t> words, int64_t samples,
                        std::vector<Place>& places) const {
  places.assign(sent_.size(), {});
  int64_t next = 0;
  for (size_t i = 0; i < sent_.size(); ++i) {
    if (sizes(words, i).length >= 0) continue;
    places[i].lengths = next;
    next += samples * static_cast<int64_t>(sizeof(int32_t));
  }
  for (size_t i = 0; i < sent_.size(); ++i) {
    next = aligned_id_block(next);
    places[i].ids = next;
    next += sizes(words, i).capacity * id_bytes_;
  }
  return aligned_id_block(next);
}

void IdBlocks::describe(const std::vector<BagScan>& scans, View<int64_t> words) const {
  for (size_t i = 0; i < sent_.size(); ++i) {
    const BagScan& scan = scans[sent_[i]];
    int64_t* const of = words.data() + kIdBlockSizes * static_cast<int64_t>(i);
    of[0] = scan.length;
    of[1] = scan.count;
    of[2] = scan.capacity;
  }
}

void IdBlocks::count(const LocalBags& bags, const std::vector<BagScan>& scans, int threads,
                     View<int64_t> words) const {
  std::fill(words.begin() + kIdBlockSizes * static_cast<int64_t>(sent_.size()), words.end(), 0);
  for (size_t i = 0; i < sent_.size(); ++i) {
    if (first_piece_[i] < 0) continue;
    const TableCuts& table = cuts_of(sent_[i]);
    const BagScan& scan = scans[sent_[i]];
    const int64_t* const ids = bags.ids.data() + scan.first;
    const int64_t pieces = table.pieces();
    int64_t* const counts = words.data() + first_piece_[i];
    const int64_t chunks = (scan.count + kCountedAChunk - 1) / kCountedAChunk;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : counts[:pieces])
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t end = std::min((chunk + 1) * kCountedAChunk, scan.count);
      for (int64_t k = chunk * kCountedAChunk; k < end; ++k) ++counts[table.piece_of(ids[k])];
    }
  }
}

void IdBlocks::write_lengths(const LocalBags& bags, const std::vector<BagScan>& scans,
                             const std::vector<Place>& places, int threads, char* block) const {
  const int64_t b = bags.local.size();
#pragma omp parallel for schedule(static) num_threads(threads)
  for (size_t i = 0; i < sent_.size(); ++i) {
    const BagScan& scan = scans[sent_[i]];
    if (scan.length >= 0) continue;
    std::memset(block + places[i].ids + scan.count * id_bytes_, 0,
                static_cast<size_t>((scan.capacity - scan.count) * id_bytes_));
    const int64_t* const offsets = feature_offsets(bags, sent_[i]);
    auto* const lengths = reinterpret_cast<int32_t*>(block + places[i].lengths);
    for (int64_t s = 0; s < b; ++s) lengths[s] = static_cast<int32_t>(offsets[s + 1] - offsets[s]);
  }
}

}  // namespace dlrm
