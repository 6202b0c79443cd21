#include "row_placement.h"

#include <algorithm>
#include <chrono>
#include <unordered_set>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The part of a group's ids from `begin` on.
PlacedIds rest_of(const PlacedIds& group, int64_t begin) {
  PlacedIds rest = group;
  rest.ids = static_cast<char*>(group.ids) + begin * (group.narrow ? 4 : 8);
  rest.count -= begin;
  return rest;
}

int64_t place_in(SlotMap& map, const PlacedIds& group, std::vector<SlotChange>& changes) {
  const auto count = static_cast<size_t>(group.count);
  return group.narrow ? map.place(View<int32_t>(static_cast<int32_t*>(group.ids), count), changes)
                      : map.place(View<int64_t>(static_cast<int64_t*>(group.ids), count), changes);
}

/// Distinct rows of a group that the map's current batch does not use yet.
std::unordered_set<int64_t> other_rows(const SlotMap& map, const PlacedIds& group) {
  std::unordered_set<int64_t> rows;
  each_id(group, [&](int64_t row) {
    if (!map.is_in_batch(row)) rows.insert(row);
  });
  return rows;
}

}  // namespace

RowPlacement::RowPlacement(bool looks_ahead, std::unique_ptr<RecordStream> stream)
    : looks_ahead_(looks_ahead),
      stream_(std::move(stream)),
      threads_(stream_ ? stream_->threads() : 1),
      writer_([this](const std::exception_ptr& error) { fail(error); }),
      mover_([this](const std::exception_ptr& error) { fail(error); }),
      planner_([this](const std::exception_ptr& error) { fail(error); }) {}

RowPlacement::~RowPlacement() { stop(); }

void RowPlacement::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    changed_.notify_all();
  }
  planner_.stop();
  mover_.stop();
  writer_.stop();
}

void RowPlacement::add(std::unique_ptr<RowCache> cache,
                       std::function<FastNeed(int64_t)> bytes_for) {
  caches_.push_back(std::move(cache));
  bytes_for_.push_back(std::move(bytes_for));
}

void RowPlacement::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  changed_.notify_all();
}

template <class Done>
void RowPlacement::wait_until(std::unique_lock<std::mutex>& lock, const Done& done) {
  changed_.wait(lock, [&] { return error_ || done(); });
  if (error_) std::rethrow_exception(error_);
}

FastNeed RowPlacement::count_fast_needed(const std::vector<PlacedIds>& ids) const {
  FastNeed needed;
  for (size_t c = 0; c < caches_.size(); ++c) {
    std::unordered_set<int64_t> rows;
    for (const PlacedIds& group : ids) {
      if (group.cache != static_cast<int>(c)) continue;
      each_id(group, [&](int64_t row) { rows.insert(row); });
    }
    const auto slots = static_cast<int64_t>(rows.size());
    if (slots > caches_[c]->map().slots()) needed = std::max(needed, bytes_for_[c](slots));
  }
  return needed;
}

void RowPlacement::announce() {
  const std::lock_guard lock(mutex_);
  announced_.push_back(first_);
}

int64_t RowPlacement::place(std::vector<PlacedIds> ids, std::vector<PlacedOrder> orders) {
  int64_t batch, released;
  {
    const std::lock_guard lock(mutex_);
    batch = first_ + static_cast<int64_t>(batches_.size());
    batches_.emplace_back();
    released = announced_.empty() ? first_ : announced_.front();
    if (!announced_.empty()) announced_.pop_front();
  }
  planner_.post([this, batch, released, ids = std::move(ids), orders = std::move(orders)] {
    place_batch(batch, released, ids, orders);
  });
  return batch;
}

bool RowPlacement::placed(int64_t batch) {
  const std::lock_guard lock(mutex_);
  return error_ || state_of(batch).placed;
}

void RowPlacement::await_placed(int64_t batch) {
  std::unique_lock lock(mutex_);
  const auto begin = Clock::now();
  wait_until(lock, [&] { return state_of(batch).placed; });
  if (!counts()) counters_.exposed_seconds += seconds_since(begin);
}

FastNeed RowPlacement::fast_needed(int64_t batch) {
  const std::lock_guard lock(mutex_);
  return state_of(batch).fast_needed;
}

void RowPlacement::await() {
  std::unique_lock lock(mutex_);
  const auto begin = Clock::now();
  wait_until(lock, [&] { return batches_.front().resident; });
  counters_.exposed_seconds += seconds_since(begin);
}

void RowPlacement::release(bool updated) {
  std::shared_ptr<Event> done = stream_ ? stream_->released() : nullptr;
  const std::lock_guard lock(mutex_);
  DLRM_CHECK(!batches_.empty(), "no batch is placed");
  const CacheCounters& counts = batches_.front().counts;
  counters_.accesses += counts.accesses;
  counters_.rows += counts.rows;
  counters_.misses += counts.misses;
  batches_.pop_front();
  ++first_;
  releases_.push_back({updated, std::move(done)});
  changed_.notify_all();
}

void RowPlacement::settle() {
  {
    std::unique_lock lock(mutex_);
    wait_until(lock, [&] {
      const bool placed_all = batches_.empty() || batches_.back().placed;
      return placed_all || (waits_for_release_ && releases_.empty());
    });
  }
  mover_.wait_for(0);
  writer_.wait_for(0);
  std::unique_lock lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  // With batches in flight, the maps change when the next one is placed.
  if (!batches_.empty() || !announced_.empty()) return;
  while (!releases_.empty()) apply_release();
}

void RowPlacement::begin_counting() {
  settle();
  for (const auto& cache : caches_) counts_.emplace_back(cache->rows());
}

void RowPlacement::end_counting() {
  settle();
  for (size_t c = 0; c < caches_.size(); ++c) {
    SlotMap& map = caches_[c]->map();
    map.keep(counts_[c].hottest(map.slots()));
  }
  counts_.clear();
}

CacheCounters RowPlacement::counters() {
  CacheCounters counters;
  {
    const std::lock_guard lock(mutex_);
    counters = counters_;
  }
  for (const auto& cache : caches_) {
    const TierTraffic traffic = cache->store().traffic();
    counters.middle_reads += traffic.found_in_middle;
    counters.reads += traffic.read.rows;
    counters.fetched_bytes += traffic.read.bytes;
    counters.written_bytes += traffic.written.bytes;
  }
  return counters;
}

void RowPlacement::apply_release() {
  for (const auto& cache : caches_) cache->map().release(releases_.front().updated);
  released_ = std::move(releases_.front().done);
  releases_.pop_front();
  --in_maps_;
  ++applied_;
}

bool RowPlacement::await_release() {
  const auto begin = Clock::now();
  std::unique_lock lock(mutex_);
  waits_for_release_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return stops_ || !releases_.empty(); });
  waited_ += seconds_since(begin);
  waits_for_release_ = false;
  if (!releases_.empty()) apply_release();
  return !stops_;
}

void RowPlacement::place_batch(int64_t batch, int64_t released, std::vector<PlacedIds> ids,
                               const std::vector<PlacedOrder>& orders) {
  {
    const std::lock_guard lock(mutex_);
    while (applied_ < released) apply_release();
  }
  while (!looks_ahead_ && in_maps_ > 0) {
    if (!await_release()) return;
  }
  ++in_maps_;
  const auto begin = Clock::now();
  waited_ = 0;
  counts_of_batch_ = {};
  changes_.resize(caches_.size());
  for (const auto& cache : caches_) cache->map().begin();
  const FastNeed needed = counts() ? count_groups(ids) : place_groups(batch, ids);
  if (needed.bytes == 0) {
    for (const PlacedOrder& order : orders) list_order(cache(order.cache).map(), order);
  }
  hand_over(batch, /*last=*/true);
  const std::lock_guard lock(mutex_);
  if (!counts()) counters_.place_seconds += seconds_since(begin) - waited_;
  if (batch >= first_) {
    state_of(batch).placed = true;
    state_of(batch).fast_needed = needed;
    state_of(batch).counts = counts_of_batch_;
  }
  changed_.notify_all();
}

/// Returns 0 bytes if the batch fits. Otherwise the fast memory in which it would.
FastNeed RowPlacement::place_groups(int64_t batch, std::vector<PlacedIds>& ids) {
  FastNeed needed;
  for (const PlacedIds& group : ids) counts_of_batch_.accesses += group.count;
  if (threads_ > 1) place_at_once(ids);
  for (size_t g = 0; g < ids.size(); ++g) {
    if (place_ids(batch, ids[g])) continue;
    const int64_t slots = slots_needed(ids, g);
    needed = std::max(needed, bytes_for_[static_cast<size_t>(ids[g].cache)](slots));
  }
  for (const auto& cache : caches_) counts_of_batch_.rows += cache->map().rows_in_batch();
  return needed;
}

/// Places the ids of all caches at the same time. In a cache with too few free slots, the ids are
/// unchanged from the first one that has none.
void RowPlacement::place_at_once(std::vector<PlacedIds>& ids) {
#pragma omp parallel for schedule(dynamic) num_threads(threads_)
  for (size_t c = 0; c < caches_.size(); ++c) {
    for (PlacedIds& group : ids) {
      if (group.cache != static_cast<int>(c)) continue;
      group = rest_of(group, place_in(caches_[c]->map(), group, changes_[c]));
      if (group.count > 0) break;
    }
  }
}

/// Returns the same as place_groups().
FastNeed RowPlacement::count_groups(const std::vector<PlacedIds>& ids) {
  FastNeed needed;
  for (size_t c = 0; c < caches_.size(); ++c) {
    const int64_t rows = counts_[c].add(ids, static_cast<int>(c));
    if (rows > caches_[c]->map().slots()) needed = std::max(needed, bytes_for_[c](rows));
  }
  return needed;
}

/// Returns false if the cache has fewer slots than the batch needs. The ids are then unchanged from
/// the first one that has none.
bool RowPlacement::place_ids(int64_t batch, PlacedIds& group) {
  const auto number = static_cast<size_t>(group.cache);
  SlotMap& map = caches_[number]->map();
  while (true) {
    group = rest_of(group, place_in(map, group, changes_[number]));
    if (group.count == 0) return true;
    const auto others = static_cast<int64_t>(other_rows(map, group).size());
    if (map.rows_in_batch() + others > map.slots()) return false;
    hand_over(batch, /*last=*/false);
    if (!await_release()) return true;
  }
}

/// The slots of the batch in the cache of group `from`, whose ids are placed up to it.
int64_t RowPlacement::slots_needed(const std::vector<PlacedIds>& ids, size_t from) const {
  const SlotMap& map = caches_[static_cast<size_t>(ids[from].cache)]->map();
  std::unordered_set<int64_t> rows;
  for (size_t g = from; g < ids.size(); ++g) {
    if (ids[g].cache == ids[from].cache) rows.merge(other_rows(map, ids[g]));
  }
  return map.rows_in_batch() + static_cast<int64_t>(rows.size());
}

/// Posts the changes made so far. `last`: the batch needs no others.
void RowPlacement::hand_over(int64_t batch, bool last) {
  for (const auto& changes : changes_) counts_of_batch_.misses += std::ssize(changes);
  Moves moves{std::move(changes_), batch, last, nullptr};
  changes_.assign(caches_.size(), {});
  {
    const std::lock_guard lock(mutex_);
    moves.after = released_;
    moves_.push_back(std::move(moves));
  }
  mover_.post([this] { move_rows(); });
}

void RowPlacement::move_rows() {
  const auto begin = Clock::now();
  std::deque<Fetch> under_way;
  while (true) {
    while (const std::optional<Moves> moves = next_moves(under_way)) {
      under_way.push_back(start_fetch(*moves));
    }
    if (under_way.empty()) break;
    finish_fetch(std::move(under_way.front()));
    under_way.pop_front();
  }
  const std::lock_guard lock(mutex_);
  counters_.fetch_seconds += seconds_since(begin);
}

/// The next moves, unless fetches under way must end before. Several fetches are under way, so that
/// a slow tier has something to read while the rows of another batch are put in their slots.
std::optional<RowPlacement::Moves> RowPlacement::next_moves(const std::deque<Fetch>& under_way) {
  constexpr size_t kMostFetches = 4, kWritesAhead = 16;
  if (!under_way.empty()) {
    if (under_way.size() == kMostFetches) return {};
    // A write may wait for the reads under way.
    if (!writer_.has_at_most(kWritesAhead)) return {};
  }
  writer_.wait_for(kWritesAhead);
  const std::lock_guard lock(mutex_);
  if (moves_.empty()) return {};
  // The rows of a batch that was dropped may leave slots that are still being filled.
  if (!under_way.empty() && under_way.front().batch < first_) return {};
  Moves moves = std::move(moves_.front());
  moves_.pop_front();
  return moves;
}

void RowPlacement::evict(RowCache& cache, View<const SlotChange> changes) {
  const std::shared_ptr<WriteBack> evicted = cache.evict(changes);
  if (!evicted) return;
  writer_.post([this, &cache, evicted] {
    const auto begin = Clock::now();
    cache.write(*evicted);
    const std::lock_guard lock(mutex_);
    counters_.write_seconds += seconds_since(begin);
  });
}

/// Reads from all caches' slower tiers at the same time.
RowPlacement::Fetch RowPlacement::start_fetch(const Moves& moves) {
  Fetch fetch{moves.batch, moves.last, {}};
  for (size_t c = 0; c < moves.changes.size(); ++c) {
    const std::vector<SlotChange>& changes = moves.changes[c];
    if (changes.empty()) continue;
    if (stream_ && fetch.parts.empty()) stream_->begin(moves.after.get());
    evict(*caches_[c], changes);
    fetch.parts.emplace_back(caches_[c].get(), caches_[c]->start_fetch(changes));
  }
  return fetch;
}

void RowPlacement::finish_fetch(Fetch fetch) {
  for (auto& [cache, part] : fetch.parts) cache->finish_fetch(std::move(part));
  if (stream_ && !fetch.parts.empty()) stream_->finish();
  if (!fetch.last) return;
  const std::lock_guard lock(mutex_);
  if (fetch.batch >= first_) state_of(fetch.batch).resident = true;
  changed_.notify_all();
}

}  // namespace dlrm
