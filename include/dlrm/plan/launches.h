#pragma once
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// What a rank's GPU is given in a training step, by the stages of the step. k: kernels, l: calls
/// of libraries (products, sorts, prefix sums, activations of cuDNN), f: fills.
///
/// ids      k for the ids that arrived, if they are int32, and k for those of data-parallel tables;
///          f + 2k to check them; if devices exchange ids (plan/id_exchange.h), 3k + 2l to select
///          those of the rank's rows, instead of the first k.
/// lookup   k for each part of the vectors that is returned, type of vectors, and memory of rows,
///          and for data-parallel tables, which share the launch if there is one part. If vectors
///          travel in fp16, k for each part.
/// bottom   k to copy the dense features; then for each layer l, or k if it has one output. k or l
///          more if an activation is not fused: only relu is, and in bf16 gelu.
/// return   on several ranks, or if rows are cut on one, k to copy vectors to E and to add those of
///          row shards. If E is bf16, k more, for partial vectors are added apart and rounded with
///          the other copies, unless bags have one id and come from one shard. With node sums 3k.
/// sort     5k + 2l for shards, and the same for data-parallel tables.
/// interact dot, fm: k. concat: k for X, and k for a pool. cross: k for X, and 2l + k for each
///          layer. Without X dot copies the gradient of Z: k.
/// top      as bottom, without the copy.
/// loss     3k.
/// backward for each layer its product l and 2k of sums for a bias; the product of the input
///          gradient l if a layer or E is below; k or l for an activation that is not relu below a
///          layer of more than one output, and for that of the last layer of bottom. 2k for a layer
///          of one output, which also sums the bias below it. An interaction as forward, but for
///          each cross layer k + 4l + 2k. k to copy dE to messages. Data-parallel tables on several
///          ranks: f + k, and f + 2k if one has a row that more than 64 of the rank's ids may name.
/// update   k for shards of each type of gradients and memory of rows, each with f + 2k for long
///          runs as above. With a row-wise rule shards with some of the columns take 3k each, f +
///          2k for long runs, and 2k in all; 4k if the borders of their rows differ. k for
///          data-parallel tables. 2k to find values that are not finite, and k for the dense
///          update; with a rule for whole tensors 3k for each. With node sums 3k.
///
/// Collectives are the ids if devices exchange them, the parts of the vectors
/// (wire/returned_parts.h), their gradients, the gradients
/// of data-parallel tables, those of dense layers in at most two buckets, the sums of squares of a
/// row-wise rule, and two for node sums. Gradients in bf16 are two for each bucket, and 3k.
///
/// Left out are copies to and from the GPU, the moves of cached rows, and copies of matrices whose
/// rows are not aligned. Layers of one output before the last are not distinguished. On a GPU a
/// product may sum the bias, if that is faster: then 2k are fewer.
struct StepLaunches {
  int kernels = 0;
  int library_calls = 0;
  int fills = 0;
  int collectives = 0;

  int launches() const { return kernels + library_calls + fills; }
};

/// The same by stages, of which a simulation tells some parts apart. Without collectives.
struct StageLaunches {
  StepLaunches ids, lookup, bottom, returned, sort, interact, top, loss;
  StepLaunches input_gradients, weight_gradients;  ///< of layers, in backward
  StepLaunches sent_gradients;                     ///< from dE to messages
  StepLaunches copy_gradients;                     ///< of data-parallel tables on several ranks
  StepLaunches update_rows, update_copies, update_dense;
  StepLaunches node_sums;

  StepLaunches all() const;
};

/// By rank. Ids are as many as expected; every rank has samples.
std::vector<StageLaunches> stage_launches(const RunConfig& config, const Plan& plan);
std::vector<StepLaunches> step_launches(const RunConfig& config, const Plan& plan);

}  // namespace dlrm
