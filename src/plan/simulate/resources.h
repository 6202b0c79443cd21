#pragma once
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/plan/machine.h"
#include "dlrm/plan/plan.h"

#include "event_run.h"
#include "step_work.h"

namespace dlrm {

/// What an operation does on a rank: bytes of memory, and FLOPs and seconds of processors at the
/// same time, after a time in which it does neither.
struct Demand {
  double bytes = 0;
  double flops = 0;
  double latency = 0;
  double busy = 0;      ///< seconds of processors that multiply nothing
  double launches = 1;  ///< of a GPU, one after another; on a CPU all are one
  double threads = 0;   ///< of the rank that take part; 0: all of them
};

/// How the ranks of a node share its processors, those of a host if they compute on GPUs. Only if
/// the machine file says how many there are.
struct NodeShare {
  int ranks = 1;       ///< consecutive ranks on a node
  double threads = 1;  ///< of a rank
  /// What a rank, and one thread of it, need for a second of the machine file. While its rates were
  /// measured, a rank may have had other threads, or less than a processor for each.
  double rank_time = 1;
  double thread_time = 1;
};

/// The machine of a simulated run.
struct SimulatedMachine {
  MachineSpeed speed;
  double products = 0;  ///< FLOP/s of a rank
  NodeShare share;

  bool shares_processors() const { return speed.processors > 0 && !speed.gpu; }
  /// Exchanges take no time. Ranks still wait for each other.
  SimulatedMachine without_exchanges() const;
};
/// That of the machine file that the config names. A usage_error if there is none, or if it lacks
/// the FLOP/s in the run's precision.
SimulatedMachine simulated_machine(const RunConfig& config, int world, const PlanOptions& options);

/// A product with a weight, or one of its two gradients, for so many samples. FLOPs of a product
/// that does not reach the rate of large ones are counted several times.
Demand demand_of(const ProductWork& product, double element_bytes, double samples,
                 const MachineSpeed& speed);

/// The resources of a machine in a run: each rank's memory and multipliers, or the processors of
/// each node, and the links within and between nodes. A processor waits for the memory that it
/// reads, and can do nothing else meanwhile.
class Resources {
 public:
  Resources(EventRun& run, int ranks, const SimulatedMachine& machine);

  const MachineSpeed& speed() const { return machine_.speed; }
  /// Threads of a rank, on a GPU those of its host.
  double threads() const { return machine_.share.threads; }
  EventRun::Work compute(size_t rank, const Demand& demand) const;
  EventRun::Work exchange(const ExchangeWork& sent) const;

 private:
  const SimulatedMachine machine_;
  std::vector<int> memories_, multipliers_;  // by rank
  std::vector<int> processors_;              // by node; empty: not known
  int local_links_ = -1, network_ = -1;
};

}  // namespace dlrm
