#include "resources.h"

#include <algorithm>
#include <cmath>

namespace dlrm {

Demand demand_of(const ProductWork& product, double element_bytes, double samples,
                 const MachineSpeed& speed) {
  const double elements = samples * (product.inputs + product.outputs) + product.parameters;
  const double slower = 1 + speed.half_rate_size / std::min(product.inputs, product.outputs);
  return {element_bytes * elements, samples * product.flops() * slower};
}

bool shares_processors(const MachineSpeed& speed) { return speed.processors > 0 && !speed.gpu; }

/// A run gives the processors of a node to its ranks in equal parts (machine_share()).
NodeShare node_share(const RunConfig& config, int world, const PlanOptions& options,
                     const MachineSpeed& speed) {
  NodeShare share;
  share.ranks = options.ranks_per_node > 0 ? options.ranks_per_node : speed.ranks_per_node;
  if (!speed.gpu && !shares_processors(speed)) return share;
  const int on_node = std::min(share.ranks, world);
  const double equal = std::max(1.0, std::floor(speed.processors / on_node));
  share.threads = config.train.threads > 0 ? config.train.threads : equal;
  if (speed.gpu) return share;
  const double then = speed.threads > 0
                          ? speed.threads
                          : std::max(1.0, std::floor(speed.processors / speed.ranks_per_node));
  share.thread_time = std::min(1.0, speed.processors / (speed.ranks_per_node * then));
  share.rank_time = share.thread_time * then / share.threads;
  return share;
}

Resources::Resources(EventRun& run, int ranks, const MachineSpeed& speed, double products,
                     const NodeShare& share)
    : speed_(speed), products_(products), share_(share) {
  if (shares_processors(speed)) {
    for (int r = 0; r < ranks; r += share.ranks) {
      processors_.push_back(run.add_resource(speed.processors));
    }
  } else {
    for (int r = 0; r < ranks; ++r) {
      memories_.push_back(run.add_resource());
      multipliers_.push_back(run.add_resource());
    }
  }
  local_links_ = run.add_resource();
  network_ = run.add_resource();
}

EventRun::Work Resources::compute(size_t rank, const Demand& demand) const {
  const double fetch = demand.bytes / speed_.memory;
  const double execute = demand.flops / products_ + demand.busy;
  const double launches = speed_.gpu ? demand.launches : std::min(demand.launches, 1.0);
  const double wait = demand.latency + launches * speed_.launch;
  EventRun::Work work;
  if (!processors_.empty()) {
    const double seconds = std::max(fetch, execute) * share_.rank_time + wait * share_.thread_time;
    work.uses[0] = {processors_of(rank), seconds,
                    demand.threads > 0 ? demand.threads : share_.threads};
    return work;
  }
  work.latency = wait;
  work.uses[0] = {memories_[rank], fetch};
  work.uses[1] = {multipliers_[rank], execute};
  return work;
}

/// On CPUs the ranks copy what they receive from their node, so the links within it have no work.
EventRun::Work Resources::exchange(const ExchangeWork& sent) const {
  EventRun::Work work;
  if (sent.local_bytes > 0) work.latency = speed_.local_exchange;
  if (sent.network_bytes > 0) work.latency += speed_.network_exchange;
  if (speed_.gpu) work.uses[0] = {local_links_, sent.local_bytes / speed_.local};
  work.uses[1] = {network_, sent.network_bytes / speed_.network};
  return work;
}

}  // namespace dlrm
