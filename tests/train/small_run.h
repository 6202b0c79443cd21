#pragma once
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/data/batch.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// The results of a few steps of training with threads as ranks: the losses, and every tensor as a
/// whole.
struct Trained {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> tensors;
  int64_t launched = 0;                             ///< steps launched as graphs
  std::vector<int64_t> launches;                    ///< of them, up to each step
  std::vector<int64_t> sent;                        ///< bytes, by rank 0's embeddings
  std::vector<std::pair<size_t, uint64_t>> memory;  ///< bytes in use and frees after each step
};

/// Trains `steps` steps of `config` on `ranks` threads with the plan of config.sharding, on the
/// device of config.device. A CPU uses one compute thread per rank. If `reference`, trains with the
/// fp64 reference. If `recorded`, recurring steps are replayed as graphs.
Trained train_on_threads(const RunConfig& config, int ranks, int steps, bool reference = false,
                         bool recorded = false);

/// Events during training. Each happens before the step of this number, unless it is negative.
struct OnTheWay {
  int evaluate = -1;  ///< infers a batch
  int resume = -1;    ///< replaces the trainer by a new one, which takes over its tensors
};
/// With the plan of config.sharding, or this one.
Trained train_recorded(const RunConfig& config, int ranks, int steps, bool recorded,
                       OnTheWay on_the_way = {}, const Plan* plan = nullptr);

/// Makes batch t of a rank, as odd_batch() does.
using MakeBatch = std::function<Batch(const RunConfig& config, int64_t t, int rank, int world)>;
/// train_on_threads() with other batches.
Trained train_on_batches(const RunConfig& config, int ranks, int steps, const MakeBatch& make_batch,
                         bool reference = false, bool recorded = false);

/// Trains on a batch in which the first id on rank `spoilt`'s device becomes 2^30 after all host
/// checks. Returns the error of each step. For devices other than the CPU. If `inferred`, the batch
/// is evaluated instead. A rank without an error has an empty text. With fixed routing the id is
/// the first that rank `part` has sent.
std::vector<std::string> errors_of_a_spoilt_id(const RunConfig& config, int ranks,
                                               bool inferred = false, int spoilt = 0, int part = 0);

/// Compares tensor by tensor: |a - b| <= tolerance · (1 + |b|).
void expect_alike(const Trained& a, const Trained& b, double loss_tolerance,
                  double weight_tolerance);

/// Batch t of a rank, with bags of any length including 0, and weights of ids if the model has
/// them, generated from (t, sample) alone. Each third batch is a partial one. Samples lack some of
/// several labels, but the first.
Batch odd_batch(const RunConfig& config, int64_t t, int rank, int world);

/// A model of unusual shapes: a table of one row, one with fewer columns than ranks, a shared one,
/// variable hotness. On a CPU. A table is cut by rows, one by columns and one not, since `auto`
/// copies all tables of so few samples.
RunConfig odd_model();

/// Shards all tables of odd_model() by `strategy`. `auto` leaves them as odd_model() has them.
void shard_by(RunConfig& config, Strategy strategy);

/// odd_model() with Adagrad for its tables, sharded by `strategy`. On a GPU with NCCL.
RunConfig adagrad_model(Strategy strategy, DeviceKind device = DeviceKind::kCpu);

/// odd_model() without dense features.
RunConfig odd_model_of_ids();

/// The model with a linear part.
RunConfig with_linear(RunConfig config);

/// A dense and a sparse optimizer.
struct OptimizerPair {
  OptimizerRule dense, sparse;
};
/// Pairs that hold every rule of kOptimizers in each of its uses. A rule of both uses is paired
/// with itself.
std::vector<OptimizerPair> optimizer_pairs();

/// The interactions that odd_model() could use but does not.
std::vector<InteractionConfig> other_interactions();
/// odd_model() with other layers, by name: every interaction with a bottom MLP, without one and
/// without dense features, every activation, and tables of other widths than the vectors.
std::map<std::string, RunConfig> models_of_other_layers();

/// Expects that each of gpus() trains to the weights of a CPU, on one rank and on three, and that
/// recorded steps give the same bits.
void expect_gpus_train_as_a_cpu(RunConfig config, int64_t steps);
/// Five steps of `config`, on one GPU, on one that replays them, and on two, train to `reference`.
void expect_gpus_train_to(const Trained& reference, RunConfig config);
/// Six steps of `config` give the same bits if rows are cached, and after a stop with an
/// evaluation.
void expect_same_bits_from_caches_and_after_a_stop(RunConfig config);

}  // namespace dlrm
