#include "resources.h"

#include <algorithm>

namespace dlrm {

Demand demand_of(const ProductWork& product, double element_bytes, double samples,
                 const MachineSpeed& speed) {
  const double elements = samples * (product.inputs + product.outputs) + product.parameters;
  const double slower = 1 + speed.half_rate_size / std::min(product.inputs, product.outputs);
  return {element_bytes * elements, samples * product.flops() * slower};
}

Resources::Resources(EventRun& run, int ranks, const MachineSpeed& speed, double products)
    : speed_(speed), products_(products) {
  for (int r = 0; r < ranks; ++r) {
    memories_.push_back(run.add_resource());
    multipliers_.push_back(run.add_resource());
  }
  local_links_ = run.add_resource();
  network_ = run.add_resource();
}

EventRun::Work Resources::compute(size_t rank, const Demand& demand) const {
  EventRun::Work work;
  work.latency = demand.latency + speed_.launch;
  work.uses[0] = {memories_[rank], demand.bytes / speed_.memory};
  work.uses[1] = {multipliers_[rank], demand.flops / products_ + demand.busy};
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
