#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlrm/comm/context.h"
#include "dlrm/comm/world.h"
#include "dlrm/config/run_config.h"
#include "dlrm/embedding/sharded_embeddings.h"
#include "dlrm/ops/ops.h"
#include "dlrm/train/checkpoint.h"
#include "dlrm/train/execution.h"

namespace dlrm {

/// Runs `body` and returns 0. If `body` throws or returns another code, prints one line on stderr
/// and ends every rank with the error's exit code.
int run_guarded(World& world, const std::function<ExitCode()>& body);

/// Returns what `body` returns. If `body` throws, ends every rank at once and does not return.
/// No object of the caller is destroyed: a destructor could wait forever for calls that this rank
/// will never start, or for a device that hangs.
ExitCode end_where_it_fails(World& world, const std::function<ExitCode()>& body);

/// The entry point for a custom program that uses the library. It holds this rank's communicator
/// among the ranks that mpirun started, its device, and the operations on it. Create one at the
/// start of main.
class Session {
 public:
  /// `threads` 0: OMP_NUM_THREADS, or the CPUs that the launcher gave this rank. On a GPU, only
  /// operations may use views of device memory; Transfer copies to and from the host.
  Session(int* argc, char*** argv, int threads = 0, DeviceKind device = DeviceKind::kCpu);
  /// For a program in which another part starts and ends MPI.
  Session(RunningMpi mpi, double mpi_timeout, int threads = 0,
          DeviceKind device = DeviceKind::kCpu);

  int rank() const { return world_.rank(); }
  int size() const { return world_.size(); }
  World& world() { return world_; }
  Communicator& comm() { return world_.comm(); }
  Context& context() { return *context_; }
  Ops& ops() { return *ops_; }
  const Log& log() const { return log_; }
  /// Options for make_plan: the memory that a plan may use, the same on all ranks. Pass them if
  /// memory may be short.
  const PlanOptions& plan_options() const { return execution_->plan_options(); }

 private:
  void start(int threads, DeviceKind device);

  World world_;
  Log log_;
  Trace trace_;
  std::unique_ptr<Execution> execution_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Ops> ops_;
};

/// The embedding options of a config.
EmbeddingOptions embedding_options(const RunConfig& config);

}  // namespace dlrm
