#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "dlrm/embedding/cache_counters.h"
#include "dlrm/plan/cache_size.h"

#include "placed_ids.h"
#include "row_cache.h"
#include "row_counts.h"
#include "row_order.h"
#include "worker.h"

namespace dlrm {

/// Brings the rows of batches to the fast tier ahead of their steps. Batches pass through these
/// calls in order:
///
///   place()     gives the batch's rows slots, and replaces each id by its row's slot
///   placed()    true once all ids are slots
///   await()     waits until the rows are in their slots
///   release()   the batch's rows may leave
///
/// Three threads work beside the step. One places batches. One moves rows in and out of slots. One
/// writes to the slower tier. The placing thread waits if the batches in flight use all slots.
class RowPlacement {
 public:
  /// `stream` is null if the host sees the slots' memory. Otherwise its threads place a batch.
  explicit RowPlacement(bool looks_ahead, std::unique_ptr<RecordStream> stream = nullptr);
  ~RowPlacement();
  RowPlacement(const RowPlacement&) = delete;
  RowPlacement& operator=(const RowPlacement&) = delete;

  /// Adds a slice's cache. `bytes_for` returns the fast memory that gives it a number of slots.
  /// Call it before the first place().
  void add(std::unique_ptr<RowCache> cache, std::function<FastNeed(int64_t)> bytes_for);
  RecordStream* stream() const { return stream_.get(); }
  RowCache& cache(int number) const { return *caches_[static_cast<size_t>(number)]; }

  /// The fast memory in which the batch would fit, of 0 bytes if it does. Takes longer than placing
  /// it.
  FastNeed count_fast_needed(const std::vector<PlacedIds>& ids) const;
  /// A batch is coming. It may take the slots of the batches released so far. This makes which rows
  /// leave independent of the time at which its ids arrive.
  void announce();
  /// Places the oldest announced batch, or one more. The arrays must stay until the batch is
  /// placed. Returns the batch's number.
  int64_t place(std::vector<PlacedIds> ids, std::vector<PlacedOrder> orders = {});
  bool placed(int64_t batch);
  void await_placed(int64_t batch);
  /// 0 bytes if a placed or counted batch fits. Otherwise the fast memory in which it would, and
  /// its ids are no slots.
  FastNeed fast_needed(int64_t batch);
  /// Waits for the rows of the oldest batch.
  void await();
  /// Ends the oldest batch. The stream of the steps holds all work on its rows. `updated`: that
  /// work changes them.
  void release(bool updated);
  /// Waits until nothing moves. Until the next place() or release(), the caches may be used.
  void settle();
  /// Counts the rows of the batches placed from now on. Their ids stay rows, and nothing moves. No
  /// batch may be in flight.
  void begin_counting();
  bool counts() const { return !counts_.empty(); }
  /// From now on the rows that most of these batches use keep their slots.
  void end_counting();
  /// Rows and misses are those of released batches.
  CacheCounters counters();
  /// Ends the threads. Afterwards ids of batches in flight may vanish.
  void stop();

 private:
  struct BatchState {
    bool placed = false, resident = false;
    FastNeed fast_needed;
    CacheCounters counts;
  };

  /// Changes of slots that are made together.
  struct Moves {
    std::vector<std::vector<SlotChange>> changes;  ///< by cache
    int64_t batch = 0;                             ///< that needs them
    bool last = false;                             ///< its rows are then in their slots
    /// Reached when the steps are done with the rows that leave. Null if the host sees the slots.
    std::shared_ptr<Event> after;
  };

  /// Moves whose records are read.
  struct Fetch {
    int64_t batch = 0;
    bool last = false;
    std::vector<std::pair<RowCache*, std::unique_ptr<RowCache::Fetch>>> parts;
  };

  struct Release {
    bool updated;
    std::shared_ptr<Event> done;  ///< null if the host sees the slots
  };

  BatchState& state_of(int64_t batch) { return batches_[static_cast<size_t>(batch - first_)]; }
  template <class Done>
  void wait_until(std::unique_lock<std::mutex>& lock, const Done& done);
  void fail(std::exception_ptr error);
  // On the placing thread.
  /// `released`: the batches before this one have left the maps, if there are enough slots.
  void place_batch(int64_t batch, int64_t released, std::vector<PlacedIds> ids,
                   const std::vector<PlacedOrder>& orders);
  FastNeed place_groups(int64_t batch, std::vector<PlacedIds>& ids);
  void place_at_once(std::vector<PlacedIds>& ids);
  FastNeed count_groups(const std::vector<PlacedIds>& ids);
  bool place_ids(int64_t batch, PlacedIds& group);
  int64_t slots_needed(const std::vector<PlacedIds>& ids, size_t from) const;
  void hand_over(int64_t batch, bool last);
  void apply_release();
  bool await_release();
  // On the moving thread.
  void move_rows();
  std::optional<Moves> next_moves(const std::deque<Fetch>& under_way);
  void evict(RowCache& cache, View<const SlotChange> changes);
  Fetch start_fetch(const Moves& moves);
  void finish_fetch(Fetch fetch);

  const bool looks_ahead_;
  const std::unique_ptr<RecordStream> stream_;
  const int threads_;  ///< that place a batch
  std::vector<std::unique_ptr<RowCache>> caches_;
  std::vector<std::function<FastNeed(int64_t)>> bytes_for_;  ///< by cache
  std::vector<RowCounts> counts_;                            ///< by cache, if rows are counted
  std::mutex mutex_;                                         ///< guards the members up to counters_
  std::condition_variable changed_;
  std::deque<BatchState> batches_;   ///< in flight
  int64_t first_ = 0;                ///< number of the oldest batch in flight
  std::deque<int64_t> announced_;    ///< the batches released before, of each to be placed
  std::deque<Release> releases_;     ///< that the slot maps do not know yet
  int64_t applied_ = 0;              ///< releases that they know
  std::shared_ptr<Event> released_;  ///< of the newest release that they know
  int64_t in_maps_ = 0;              ///< batches that the slot maps know
  std::deque<Moves> moves_;          ///< to be made, in this order
  bool waits_for_release_ = false, stops_ = false;
  std::exception_ptr error_;
  CacheCounters counters_;
  std::vector<std::vector<SlotChange>> changes_;  ///< by cache, of the batch that is being placed
  CacheCounters counts_of_batch_;                 ///< of that batch
  double waited_ = 0;                             ///< seconds that its placing waited for releases
  Worker writer_, mover_, planner_;               // declared last, so that they end first
};

}  // namespace dlrm
