#pragma once
#include <vector>

#include "dlrm/plan/machine.h"

#include "event_run.h"
#include "step_work.h"

namespace dlrm {

/// What an operation does on a rank: bytes of memory, and FLOPs and seconds of processors at the
/// same time, after a time in which it does neither.
struct Demand {
  double bytes = 0;
  double flops = 0;
  double latency = 0;
  double busy = 0;  ///< seconds of processors that multiply nothing
};

/// A product with a weight, or one of its two gradients, for so many samples. FLOPs of a product
/// that does not reach the rate of large ones are counted several times.
Demand demand_of(const ProductWork& product, double element_bytes, double samples,
                 const MachineSpeed& speed);

/// The resources of a machine in a run: each rank's memory and multipliers, and the links within
/// and between nodes.
class Resources {
 public:
  /// `products` are a rank's FLOP/s.
  Resources(EventRun& run, int ranks, const MachineSpeed& speed, double products);

  const MachineSpeed& speed() const { return speed_; }
  EventRun::Work compute(size_t rank, const Demand& demand) const;
  EventRun::Work exchange(const ExchangeWork& sent) const;

 private:
  const MachineSpeed speed_;
  const double products_;
  std::vector<int> memories_, multipliers_;  // by rank
  int local_links_ = -1, network_ = -1;
};

}  // namespace dlrm
