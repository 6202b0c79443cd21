#pragma once
#include <memory>
#include <string>

#include "dlrm/config/run_config.h"
#include "dlrm/core/error.h"
#include "dlrm/train/execution.h"

namespace dlrm {

/// What a rank needs to train a model, on the device of its configuration. A CPU uses one thread.
/// If `traced`, stages are timed.
struct TestRank {
  TestRank(Communicator& comm, const RunConfig& config, bool traced = false)
      : trace(traced),
        log(comm.rank()),
        execution(comm, config, machine_share(comm)),
        context(execution.context(trace, log)),
        ops(execution.make_ops(1, false)) {}

  Trace trace;
  Log log;
  Execution execution;
  Context context;
  std::unique_ptr<Ops> ops;
};

/// The text of the Error that `call` throws. Empty without one.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace dlrm
