#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dlrm/comm/context.h"
#include "dlrm/config/run_config.h"
#include "dlrm/ops/ops.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// A rank's bags of one global batch: what every embedding user must hand in.
struct LocalBags {
  Range local;  ///< this rank's samples of [0, global_size): part_of(global_size, rank, world)
  int64_t global_size = 0;
  View<const int64_t> ids;      ///< feature-major (tables in order, features in order), then sample
  View<const int64_t> offsets;  ///< [features·b + 1], into ids
};

struct EmbeddingOptions {
  std::vector<TableConfig> tables;
  OptimizerConfig optimizer;
  WireConfig wire;
  RoutingConfig routing;
  uint64_t seed = 1;  ///< of the initial rows U(±1/sqrt(rows))
  int64_t max_global_batch = 0;
  bool initialise = true;  ///< false where a checkpoint will fill the rows
};

/// One array of one local shard: where a checkpoint reads and writes it.
struct ShardArray {
  std::string path;            ///< "/tables/C1/weight", ".../adagrad", ".../adam_m", ".../adam_v"
  std::vector<int64_t> shape;  ///< of the whole tensor: [rows, D] or [rows]
  Range rows;                  ///< the part that is here
  Range columns;               ///< [0, 1) for a one-dimensional tensor
  void* data = nullptr;
  DType type = DType::kFloat32;  ///< fp32 or bf16; checkpoints hold fp32
  int64_t stride = 0;            ///< elements from row to row
  bool saves = true;             ///< false where another rank saves the same part
};

/// Embedding tables sharded over the ranks by a plan, in the memory of each shard's tier, with
/// their exchange and their optimizer: what a training step asks of them, in this order. One world
/// of ranks makes the same calls with the same global batches.
///
///   route(bags)            any number of batches ahead (at most routing depth + 1 in flight)
///   lookup()               pools the oldest routed batch's rows on their owners
///   start_return()         sends pooled vectors off
///   finish_return()        E [b, W]; then either drop() or:
///   gradient()             dE [b, W], to be filled by the caller
///   start_backward()       sends pooled gradients off
///   update(lr, step)       one optimizer update of each row present; the batch is done
class ShardedEmbeddings {
 public:
  ShardedEmbeddings(Context& context, Ops& ops, EmbeddingOptions options, Plan plan);
  ~ShardedEmbeddings();

  /// Checks ids against their tables (usage_error naming sample, feature, value), buckets them by
  /// owner, and starts the exchange on a communicator of its own. Copies what it needs of `bags`.
  void route(const LocalBags& bags);
  /// Batches routed and not done yet.
  int in_flight() const;
  void lookup();
  void start_return();
  MatrixView<const float> finish_return();
  MatrixView<float> gradient();
  /// May come before start_backward(), which does it else: sorts the batch's ids for its update,
  /// beside what the stream is given from now on where the device can.
  void group_ahead();
  void start_backward();
  /// `learning_rate` with the schedule applied; `step` from 0, for Adam's bias correction.
  void update(double learning_rate, int64_t step);
  /// Ends the oldest batch: without an update once its E is returned, or before its lookup.
  void drop();
  /// Moves started exchanges on; call between layers.
  void poll();

  /// The steps above in two calls, for models with nothing to overlap: E of `bags`, which are not
  /// routed ahead ...
  MatrixView<const float> forward(const LocalBags& bags) {
    route(bags);
    lookup();
    start_return();
    return finish_return();
  }
  /// ... and, gradient() filled, the update.
  void backward(double learning_rate, int64_t step) {
    start_backward();
    update(learning_rate, step);
  }

  // For a step that is recorded once and launched again: what the host does for each batch, and
  // what it does to record.

  /// What the stream is given next finds the oldest batch's ids. lookup() does so where this was
  /// not called before.
  void arrive();
  /// Appends the oldest batch's sizes and places: lookup() to apply() of batches that give the same
  /// queue the same work.
  void append_key(std::vector<uint64_t>& key);
  /// Looks through the oldest batch's ids on the device, where nothing has seen them since route()
  /// did; as Ops::check_ids, `where` = {feature, sample, id}.
  void check_ids(View<float> flag, View<int64_t> where);
  /// One optimizer update of each row present. The batch is done with drop().
  void apply(const OptimizerStep& step);

  int64_t width() const;  ///< W
  const Plan& plan() const;
  /// Everything a checkpoint holds of the local shards.
  std::vector<ShardArray> arrays();
  /// Draws all rows anew from the seed, state to its initial value.
  void initialise();
  /// Throws run_error naming table and row where replicas of a data-parallel table differ.
  /// Collective.
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

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrm
