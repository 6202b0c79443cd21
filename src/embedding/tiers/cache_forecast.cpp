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

int64_t distinct(std::vector<int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  return std::unique(ids.begin(), ids.end()) - ids.begin();
}

std::vector<CachedRows> rows_of(const RunConfig& config, const Plan& plan, int rank) {
  return cached_rows(config.model.tables, config.train.sparse_optimizer.type, config.memory.cached,
                     config.train.global_batch_size, plan, rank);
}

}  // namespace

CacheForecast::CacheForecast(const RunConfig& config, const Plan& plan, int rank)
    : window_(config.memory.cached.policy == "lookahead" ? config.batches_ahead() + 1 : 1),
      tables_(config.model.tables),
      sizes_(rows_of(config, plan, rank)) {
  const CachedConfig& cached = config.memory.cached;
  const std::vector<int64_t> slots = cache_slots(sizes_, fast_bytes(cached, sizes_));
  const std::vector<bool> whole = whole_slices(cached, sizes_);
  for (const Shard& shard : plan.shards) {
    if (shard.rank != rank || shard.tier != MemoryTier::kCached) continue;
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

void CacheForecast::add(View<const int64_t> ids, View<const int64_t> offsets) {
  int64_t features = 0;
  for (const TableConfig& table : tables_) features += static_cast<int64_t>(table.features.size());
  const int64_t samples = (static_cast<int64_t>(offsets.size()) - 1) / features;
  std::vector<int64_t> mine;
  int64_t feature = 0;
  for (size_t t = 0; t < tables_.size(); ++t) {
    const auto last = feature + static_cast<int64_t>(tables_[t].features.size());
    const int64_t begin = offsets[static_cast<size_t>(feature * samples)];
    const int64_t end = offsets[static_cast<size_t>(last * samples)];
    feature = last;
    for (size_t s = 0; s < slices_.size(); ++s) {
      if (slices_[s].table != static_cast<int>(t)) continue;
      mine.clear();
      for (int64_t k = begin; k < end; ++k) {
        const int64_t id = ids[static_cast<size_t>(k)];
        if (slices_[s].rows.begin <= id && id < slices_[s].rows.end) {
          mine.push_back(id - slices_[s].rows.begin);
        }
      }
      slices_[s].largest_batch = std::max(slices_[s].largest_batch, distinct(mine));
      if (caches_[s]) place(slices_[s], *caches_[s], mine);
    }
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
    least.push_back(bytes_for_slots(sizes_, s, slices_[s].largest_batch));
  }
  return least;
}

}  // namespace dlrm
