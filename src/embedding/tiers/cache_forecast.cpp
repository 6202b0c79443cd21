#include "dlrm/embedding/cache_forecast.h"

#include <algorithm>

#include "dlrm/plan/cache_size.h"

#include "slot_map.h"

namespace dlrm {

struct CacheForecast::Cache {
  Cache(int64_t rows, int64_t slots, bool lru16)
      : map(rows, slots, lru16 ? make_lru16() : make_clock()), stored(static_cast<size_t>(rows)) {}

  SlotMap map;
  std::vector<bool> stored;  ///< by row: the slower tier has a record
  int in_flight = 0;
  std::vector<SlotChange> changes;
};

CacheForecast::~CacheForecast() = default;
CacheForecast::CacheForecast(CacheForecast&&) noexcept = default;

namespace {

/// Fewer ids than this part of a table's are sorted faster than they are found among all.
constexpr ptrdiff_t kFew = 16;

}  // namespace

BatchRows::BatchRows(const std::vector<TableConfig>& tables, View<const int64_t> ids,
                     View<const int64_t> offsets) {
  size_t features = 0;
  for (const TableConfig& table : tables) features += table.features.size();
  const size_t samples = (offsets.size() - 1) / features;
  size_t feature = 0;
  for (const TableConfig& table : tables) {
    const auto begin = static_cast<size_t>(offsets[feature * samples]);
    feature += table.features.size();
    const auto end = static_cast<size_t>(offsets[feature * samples]);
    Table& own = tables_.emplace_back();
    own.ids = ids.subspan(begin, end - begin);
    for (size_t i = 0; i < own.ids.size(); ++i) {
      own.by_id.push_back({own.ids[i], static_cast<int64_t>(i)});
    }
    std::ranges::sort(own.by_id, {}, &Entry::id);
  }
}

int64_t BatchRows::of(int table, Range rows, std::vector<int64_t>& ids) const {
  const Table& of = tables_[static_cast<size_t>(table)];
  const auto first = std::ranges::lower_bound(of.by_id, rows.begin, {}, &Entry::id);
  const auto last = std::ranges::lower_bound(first, of.by_id.end(), rows.end, {}, &Entry::id);
  int64_t distinct = 0;
  for (auto i = first; i != last; ++i) distinct += i == first || i->id != (i - 1)->id;
  ids.clear();
  if (last - first > std::ssize(of.by_id) / kFew) {
    for (const int64_t id : of.ids) {
      if (rows.begin <= id && id < rows.end) ids.push_back(id - rows.begin);
    }
    return distinct;
  }
  std::vector<Entry> own(first, last);
  std::ranges::sort(own, {}, &Entry::place);
  for (const Entry& entry : own) ids.push_back(entry.id - rows.begin);
  return distinct;
}

CacheForecast::CacheForecast(const RunConfig& config, const Plan& plan, int rank)
    : window_(config.memory.cached.policy == "lookahead" ? config.batches_ahead() + 1 : 1),
      rows_(cached_rows(config, plan, rank)) {
  const CachedConfig& cached = config.memory.cached;
  const auto [slots, whole, middle] = cache_sizes(cached, rows_);
  for (auto i = std::ranges::lower_bound(plan.shards, rank, {}, &Shard::rank);
       i != plan.shards.end() && i->rank == rank; ++i) {
    const Shard& shard = *i;
    if (shard.tier != MemoryTier::kCached) continue;
    const bool known = !slices_.empty() && slices_.back().table == shard.table &&
                       slices_.back().rows == shard.rows;
    if (known) continue;  // other columns of the same rows
    const int64_t here = slots[slices_.size()];
    slices_.push_back({shard.table, shard.rows, here});
    caches_.push_back(whole[caches_.size()] ? nullptr
                                            : std::make_unique<Cache>(shard.rows.size(), here,
                                                                      cached.policy == "lru16"));
  }
}

void CacheForecast::add(const BatchRows& batch) {
  std::vector<int64_t> mine;
  for (size_t s = 0; s < slices_.size(); ++s) {
    Slice& slice = slices_[s];
    slice.largest_batch = std::max(slice.largest_batch, batch.of(slice.table, slice.rows, mine));
    if (caches_[s]) place(slice, *caches_[s], mine);
  }
}

void CacheForecast::place(Slice& slice, Cache& cache, std::vector<int64_t>& ids) const {
  const auto release = [&] {
    cache.map.release(/*updated=*/true);
    --cache.in_flight;
  };
  while (cache.in_flight >= window_) release();
  cache.map.begin();
  ++cache.in_flight;
  cache.changes.clear();
  View<int64_t> rest(ids);
  while (true) {
    rest = rest.subspan(static_cast<size_t>(cache.map.place(rest, cache.changes)));
    if (rest.empty() || cache.in_flight == 1) break;  // a batch that does not fit is cut off
    release();
  }
  slice.misses += static_cast<int64_t>(cache.changes.size());
  for (const SlotChange& change : cache.changes) {
    slice.reads += cache.stored[static_cast<size_t>(change.row)];
    if (change.evicted < 0 || !change.dirty) continue;
    ++slice.writes;
    cache.stored[static_cast<size_t>(change.evicted)] = true;
  }
}

void CacheForecast::reset_counts() {
  for (Slice& slice : slices_) slice.misses = slice.reads = slice.writes = 0;
}

std::vector<FastNeed> CacheForecast::least_fast_memory() const {
  std::vector<FastNeed> least;
  for (size_t s = 0; s < slices_.size(); ++s) {
    least.push_back(bytes_for_slots(rows_, s, slices_[s].largest_batch));
  }
  return least;
}

}  // namespace dlrm
