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

/// Runs `body` and ends the program as every program here ends: 0, or one line on stderr and the
/// error's exit code on every rank. Does not return where the code is not 0.
int run_guarded(World& world, const std::function<ExitCode()>& body);

/// Returns what `body` returns. If `body` throws, ends every rank at once and does not return.
/// Nothing that the caller holds is destroyed: calls in flight may wait for calls that this rank
/// will never start, and streams for a device that hangs.
ExitCode end_where_it_fails(World& world, const std::function<ExitCode()>& body);

/// What a program of one's own needs to use the library: this rank's place among the ranks that
/// mpirun started, its device, and the operations on it. Make one at the start of main.
class Session {
 public:
  /// `threads` 0: OMP_NUM_THREADS, or the CPUs that the launcher gave this rank. On a GPU views of
  /// device memory are for operations alone: Transfer copies to and from the host.
  Session(int* argc, char*** argv, int threads = 0, DeviceKind device = DeviceKind::kCpu);

  int rank() const { return world_.rank(); }
  int size() const { return world_.size(); }
  World& world() { return world_; }
  Communicator& comm() { return world_.comm(); }
  Context& context() { return *context_; }
  Ops& ops() { return *ops_; }
  const Log& log() const { return log_; }
  /// For make_plan, where tables may have too little room.
  PlanOptions plan_options() const { return execution_->plan_options(); }

 private:
  World world_;
  Log log_;
  Trace trace_;
  std::unique_ptr<Execution> execution_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Ops> ops_;
};

/// What a config says of the embeddings.
EmbeddingOptions embedding_options(const RunConfig& config);

/// The shards of this rank as save_checkpoint and load_pieces take them.
std::vector<TensorShard> pieces_of(Context& context, ShardedEmbeddings& embeddings);

}  // namespace dlrm
