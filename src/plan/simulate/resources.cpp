#include "resources.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dlrm/core/error.h"

namespace dlrm {

Demand demand_of(const ProductWork& product, double element_bytes, double samples,
                 const MachineSpeed& speed) {
  const double elements = samples * (product.inputs + product.outputs) + product.parameters;
  const double slower = 1 + speed.half_rate_size / std::min(product.inputs, product.outputs);
  return {element_bytes * elements, samples * product.flops() * slower};
}

/// A run gives the processors of a node to its ranks in equal parts (machine_share()).
SimulatedMachine simulated_machine(const RunConfig& config, int world, const PlanOptions& options) {
  const std::string& path = config.sharding.machine;
  if (path.empty()) throw usage_error("sharding.machine: a simulation needs a machine file");
  SimulatedMachine machine{read_machine(path).speed};
  const MachineSpeed& speed = machine.speed;
  machine.products = speed.products(config.train.precision);
  if (machine.products <= 0) {
    throw usage_error("{}: {}_products_per_second: missing; a simulation needs it", path,
                      config.train.precision == Precision::kBf16 ? "bf16" : "fp32");
  }
  NodeShare& share = machine.share;
  share.ranks = options.ranks_per_node > 0 ? options.ranks_per_node : speed.ranks_per_node;
  if (!speed.gpu && !machine.shares_processors()) return machine;
  const int on_node = std::min(share.ranks, world);
  const double equal = std::max(1.0, std::floor(speed.processors / on_node));
  share.threads = config.train.threads > 0 ? config.train.threads : equal;
  if (speed.gpu) return machine;
  const double then = speed.threads > 0
                          ? speed.threads
                          : std::max(1.0, std::floor(speed.processors / speed.ranks_per_node));
  share.thread_time = std::min(1.0, speed.processors / (speed.ranks_per_node * then));
  share.rank_time = share.thread_time * then / share.threads;
  return machine;
}

SimulatedMachine SimulatedMachine::without_exchanges() const {
  SimulatedMachine machine = *this;
  machine.speed.local = machine.speed.network = std::numeric_limits<double>::infinity();
  machine.speed.local_exchange = machine.speed.network_exchange = 0;
  return machine;
}

Resources::Resources(EventRun& run, int ranks, const SimulatedMachine& machine)
    : machine_(machine) {
  if (machine.shares_processors()) {
    for (int r = 0; r < ranks; r += machine.share.ranks) {
      processors_.push_back(run.add_resource(machine.speed.processors));
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
  const auto& [speed, products, share] = machine_;
  const double fetch = demand.bytes / speed.memory;
  const double execute = demand.flops / products + demand.busy;
  const double launches = speed.gpu ? demand.launches : std::min(demand.launches, 1.0);
  const double wait = demand.latency + launches * speed.launch;
  EventRun::Work work;
  if (machine_.shares_processors()) {
    const double seconds = std::max(fetch, execute) * share.rank_time + wait * share.thread_time;
    work.uses[0] = {processors_[rank / static_cast<size_t>(share.ranks)], seconds,
                    demand.threads > 0 ? demand.threads : share.threads};
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
  if (sent.local_bytes > 0) work.latency = speed().local_exchange;
  if (sent.network_bytes > 0) work.latency += speed().network_exchange;
  if (speed().gpu) work.uses[0] = {local_links_, sent.local_bytes / speed().local};
  work.uses[1] = {network_, sent.network_bytes / speed().network};
  return work;
}

}  // namespace dlrm
