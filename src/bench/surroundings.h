#pragma once
#include <memory>

#include "dlrm/train/execution.h"
#include "dlrm/train/machine.h"

namespace dlrm::bench {

/// The execution, threads and context of a measurement on one rank.
struct Surroundings {
  Surroundings(Communicator& comm, const RunConfig& config, const MachineShare& share)
      : threads(threads_for(config.train.threads, share)),
        log(comm.rank()),
        execution(comm, config, share),
        context(execution.context(trace, log)),
        ops(execution.make_ops(threads, false)) {}

  int threads;
  Log log;
  Trace trace;
  Execution execution;
  Context context;
  std::unique_ptr<Ops> ops;
};

}  // namespace dlrm::bench
