#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlrm/comm/context.h"
#include "dlrm/config/run_config.h"
#include "dlrm/core/error.h"
#include "dlrm/core/tensor_shard.h"
#include "dlrm/embedding/cache_counters.h"
#include "dlrm/ops/ops.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// The bags of one rank's samples in one global batch.
struct LocalBags {
  Range local;  ///< this rank's samples of [0, global_size): part_of(global_size, rank, world)
  int64_t global_size = 0;
  View<const int64_t> ids;      ///< feature-major (tables in order, features in order), then sample
  View<const int64_t> offsets;  ///< [features·b + 1] into ids, from any first id
  int64_t content = 0;          ///< bags of one number, unless it is 0, are the same
  View<const float> weights = {};  ///< of `ids`, if a feature has weights; read for its ids only
};

/// See ShardedEmbeddings::pack().
struct PackedIds;

struct EmbeddingOptions {
  std::vector<TableConfig> tables;
  OptimizerConfig optimizer;
  WireConfig wire;
  RoutingConfig routing;
  CachedConfig cached;  ///< of the shards of tier cached
  uint64_t seed = 1;    ///< of the initial rows
  int64_t max_global_batch = 0;
  bool initialise = true;  ///< false if a checkpoint will fill the rows
};

/// The rows of a batch do not fit the fast tier of cached tables. Before the first step its code is
/// kUsage, later kFailure.
class RowsDoNotFit : public Error {
 public:
  using Error::Error;
};

/// Embedding tables sharded over the ranks by a plan, with their exchange and their optimizer. All
/// ranks make the same calls with the same global batches. A training step makes these calls in
/// this order:
///
///   route(bags)        checks ids and sends them to their owners; at most routing.depth + 1
///                      batches are in flight
///   await_ids()        waits for the oldest batch's ids
///   prepare_ids()      makes them ready for lookup
///   lookup()           pools rows on their owners
///   start_return()     starts to send pooled vectors to the ranks of the samples
///   finish_return()    returns E [b, W], fp32 unless pool_into() names another type; then either
///                      drop(), or:
///   gradient()         returns dE [b, W], fp32 unless read_gradients_from() names another type;
///                      the caller fills it
///   start_backward()   starts to send gradients of pooled vectors to the owners
///   apply(step)        updates each row present once
///   drop()             ends the batch
///
/// Calls in another order throw run_error. route(), await_ids(), append_key(), drop() and poll()
/// run on the host. The other calls queue work on the context's stream, which may be captured in a
/// graph.
class ShardedEmbeddings {
 public:
  ShardedEmbeddings(Context& context, Ops& ops, EmbeddingOptions options, Plan plan);
  ~ShardedEmbeddings();

  /// From now on batches of the same number of samples mostly have equal keys, although their ids
  /// differ: lists of ids and vectors get room for some more than they have, and what a batch needs
  /// more is kept for those after it. Results stay bitwise the same. With *fixed* routing on
  /// the hosts keys still depend on the numbers of ids. No batch may be in flight. All ranks make
  /// this call or none.
  void keep_sizes();

  /// From now on E of b samples is written to the first b rows of `e` [largest local batch, W],
  /// fp32 or bf16. Sums are in fp32 and rounded once. No batch may be in flight.
  void pool_into(const Matrix& e);
  /// From now on dE of b samples is read from the first b rows of `de` [largest local batch, W],
  /// fp32 or bf16, which gradient() returns. They must stay until apply(). Sums are in fp32.
  void read_gradients_from(const Matrix& de);
  /// The number of floats in which a device sums gradients of data-parallel tables over several
  /// ranks. Otherwise 0.
  int64_t summed_gradients() const;
  /// From now on start_backward() queues the rank's part of these sums, which fills `place`
  /// [summed_gradients()], and the caller adds up the ranks' parts. apply() needs them.
  void sum_gradients_in(View<float> place);

  /// Checks ids, buckets them by owner, and starts their exchange on a communicator of its own.
  /// Copies the data that it needs, so `bags` may change afterwards. Throws usage_error naming
  /// sample, feature and id if an id is outside its table.
  /// `packed`: null, or the object that pack() has filled for these bags or others.
  void route(const LocalBags& bags, PackedIds* packed = nullptr);
  /// Optional: does most of the host's work of route() before it, on any thread. Several threads
  /// may pack different bags, also while others call route(). `packed` keeps memory, so it should
  /// be used again for later bags. If devices exchange no ids (plan/id_exchange.h) it stays null.
  /// Throws as route() does. `bags` must not change before route().
  void pack(const LocalBags& bags, std::shared_ptr<PackedIds>& packed) const;
  /// Batches routed and not dropped yet.
  int in_flight() const;
  /// Waits until the oldest batch's ids are on their owners, and its cached rows in the fast tier.
  /// The context's stream waits for the ids' copy to the device. Throws RowsDoNotFit on every rank.
  /// Idempotent.
  void await_ids();
  /// Prepares ids for lookup: unpacks them, checks them on the device, and selects those of this
  /// rank's rows. The check guards against memory errors. It is skipped if `flag` is empty. It is
  /// also skipped if the host sees the device's memory, because route() has checked the ids there.
  /// A bad id sets `flag` [1] to 1 and `where` [3] to {feature, sample, id}, as in CheckIds.
  void prepare_ids(View<float> flag = {}, View<int64_t> where = {});
  void lookup();
  void start_return();
  /// Optional, before finish_return(). Sorts the batch's ids for its update on a side stream, while
  /// vectors travel. Has no effect on a device without a side stream.
  void sort_ids();
  Matrix finish_return();
  /// What is queued on the context's stream after this runs after sort_ids(). start_backward() does
  /// it otherwise, but a recording of the forward pass must end with it.
  void await_sort();
  Matrix gradient();
  void start_backward();
  /// Optional, before apply(). What is queued on the context's stream after this runs after the
  /// gradients have arrived.
  void await_gradients();
  /// After sum_gradients_in(), `await_sums` makes the context's stream wait for the sums over all
  /// ranks. Rows of shards are updated before it.
  void apply(const OptimizerStep& step, const std::function<void()>& await_sums = nullptr);
  /// Ends the oldest batch. May be called before its lookup, after finish_return(), or after
  /// apply().
  void drop();
  /// Advances started exchanges. Call it between layers.
  void poll();

  /// Three calls for models that do not overlap stages. forward() returns E of `bags`, which must
  /// not have been routed. E is in fp32 here.
  MatrixView<const float> forward(const LocalBags& bags) {
    route(bags);
    await_ids();
    prepare_ids();
    lookup();
    start_return();
    return finish_return().f32();
  }
  /// Updates the rows with gradient(), which the caller has filled, and ends the batch.
  void backward(double learning_rate, int64_t step) {
    start_backward();
    update(learning_rate, step);
  }
  /// Calls apply() and drop(). `learning_rate` includes the schedule's factor. `step` counts from
  /// 0.
  void update(double learning_rate, int64_t step);

  /// Appends the oldest batch's sizes and addresses, after await_ids(). Batches of equal keys queue
  /// the same work, so that one recorded graph serves them.
  void append_key(std::vector<uint64_t>& key);

  /// For cached rows of policy static: calls `route_next`, which routes a batch, until it returns
  /// false on all ranks. Counts the rows of these batches and drops them. From now on the rows that
  /// most of them use stay in the fast tier. If one of these batches does not fit there, the first
  /// await_ids() throws. Returns the number of batches. For other policies it returns 0 without a
  /// call. No batch may be in flight.
  int64_t keep_hot_rows(const std::function<bool()>& route_next);

  int64_t width() const;  ///< W
  const Plan& plan() const;
  /// The weights and optimizer state on this rank, for save_checkpoint() and load_pieces(). They
  /// refer to this object.
  std::vector<TensorShard> shards();
  /// Draws all rows from the seed again and resets optimizer state.
  void initialise();
  /// Throws run_error naming table and row if replicas of a data-parallel table differ. Collective.
  void check_replicas();

  /// Bytes sent to other ranks since the start.
  struct Traffic {
    int64_t ids = 0, pooled = 0, gradients = 0, replicated = 0;
    int64_t total() const { return ids + pooled + gradients + replicated; }
    Traffic& operator+=(const Traffic& more) {
      ids += more.ids;
      pooled += more.pooled;
      gradients += more.gradients;
      replicated += more.replicated;
      return *this;
    }
    friend Traffic operator-(const Traffic& a, const Traffic& b) {
      return {a.ids - b.ids, a.pooled - b.pooled, a.gradients - b.gradients,
              a.replicated - b.replicated};
    }
  };
  Traffic traffic() const;
  /// Of this rank's cached tables. Nothing if no rank caches rows.
  std::optional<CacheCounters> cache_counters() const;
  /// The bytes sent without those of ids. A replayed graph sends them again, but the host sends
  /// ids.
  Traffic step_traffic() const;
  /// The work of the lookups that a GPU launches for a batch, relative to each other. For models of
  /// time.
  struct LookupWork {
    std::vector<double> sums;  ///< of each launch of sums and means, in their order
    double maxima = 0;         ///< of all launches of maxima together
  };
  LookupWork lookup_work() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace dlrm
