#pragma once
#include <compare>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/plan/machine.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// A rank's part of a step, by the terms of the cost model. Bytes are those of its memory.
struct RankWork {
  double samples = 0;        ///< of its local batch
  double shards = 0;         ///< and copies of tables
  double sent_ids = 0;       ///< of its samples
  double routed_ids = 0;     ///< of these, those that a GPU's host routes or copies
  double received_ids = 0;   ///< of its rows
  double route_bytes = 0;    ///< ids of its samples are bucketed
  double forward_bytes = 0;  ///< lookups
  double sort_bytes = 0;     ///< ids that it received
  double update_bytes = 0;   ///< of shards: gradients, rows and their state
  /// Of data-parallel tables: gradients that it sums; rows and their state.
  double copy_gradient_bytes = 0, copy_update_bytes = 0;
  double received_bytes = 0;  ///< vectors from messages to E
  double packed_bytes = 0;    ///< gradients from dE to messages
  double node_sent = 0;       ///< bytes of partial vectors that other ranks of the node add
  double node_received = 0;   ///< bytes of those that it adds

  /// Of shards, and of data-parallel tables unless these are updated apart.
  double shard_updates(bool copies_apart) const {
    return update_bytes + (copies_apart ? 0 : copy_gradient_bytes + copy_update_bytes);
  }

  auto operator<=>(const RankWork&) const = default;
};

/// A matrix product with a weight, y = x·w.
struct ProductWork {
  double inputs = 0, outputs = 0;
  double parameters = 0;       ///< elements of the weight and of its bias
  bool input_gradient = true;  ///< backward computes dx
  /// Elements per sample that a CPU reads and writes besides: activations, and sums of biases.
  double forward_passes = 0, backward_passes = 0;

  double flops() const { return 2 * inputs * outputs; }  ///< per sample
};

/// Passes per sample that are no products with weights.
struct PassWork {
  double flops = 0;
  double bytes = 0;
};

/// The dense part of the model, the same on all ranks.
struct DenseWork {
  std::vector<ProductWork> bottom, interaction, top;
  PassWork interact_forward, interact_backward;
  double element_bytes = 4;             ///< of activations
  std::vector<double> bucket_bytes;     ///< on the wire, of each bucket of gradients
  std::vector<size_t> bucket_products;  ///< the first product in it, counted in forward order
  double parameters = 0;
  double update_bytes = 0;  ///< weights, gradients and state
  double labels = 1;
  double linear_launches = 0;  ///< of the linear part's sums of E, in each direction
};

/// An exchange of all ranks.
struct ExchangeWork {
  double local_bytes = 0;    ///< the most that a rank sends to, or receives from, its node
  double network_bytes = 0;  ///< the most that a node sends to, or receives from, other nodes
  bool empty() const { return local_bytes <= 0 && network_bytes <= 0; }
  ExchangeWork& operator+=(const ExchangeWork& more) {
    local_bytes += more.local_bytes;
    network_bytes += more.network_bytes;
    return *this;
  }
};

/// What a step of a plan does.
struct StepWork {
  std::vector<RankWork> ranks;
  DenseWork dense;
  ExchangeWork ids, pooled, gradients, replicas;
  ExchangeWork node_sums;             ///< of partial vectors, and again of their gradients
  std::vector<ExchangeWork> buckets;  ///< of dense gradients
  bool joins_copies = false;          ///< the last of them has the gradients of replicas, too
  int batches_ahead = 1;
  bool draws_samples = false;  ///< data is synthetic. Of other data the time is not known.
  int readers = 0;             ///< threads of a rank that make batches; 0: the main thread does

  /// True if gradients of data-parallel tables are summed over ranks, before an update of its own.
  bool sums_copies() const { return joins_copies || !replicas.empty(); }
  /// Of all exchanges.
  ExchangeWork exchanged() const {
    ExchangeWork sum;
    for (const ExchangeWork* work :
         {&ids, &pooled, &gradients, &replicas, &node_sums, &node_sums}) {
      sum += *work;
    }
    for (const ExchangeWork& work : buckets) sum += work;
    return sum;
  }
};

StepWork step_work(const RunConfig& config, const Plan& plan, const PlanOptions& options);

/// An all-to-all in which a rank sends, or receives, so many bytes, evenly to all other ranks.
ExchangeWork all_to_all(const std::vector<double>& bytes_of_rank, int ranks_per_node);
/// An allreduce of so many bytes. Ranks of a node sum first, and share what nodes exchange.
ExchangeWork all_reduce(double bytes, int world, int ranks_per_node);

/// `on_gpu`: gradients are summed in the buckets of GPUs.
DenseWork dense_work(const RunConfig& config, bool on_gpu);

}  // namespace dlrm
