#pragma once
#include <memory>
#include <string>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/trace.h"

namespace dlrm {

/// The ranks that mpirun or srun started together, or this process alone: MPI from its start to its
/// end, the watchdog, and the channel through which errors end every rank alike.
///
/// With one process and no launcher MPI is not started at all.
class World {
 public:
  World(int* argc, char*** argv);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const;
  int size() const;
  int local_rank() const;  ///< among the ranks of this node
  int local_size() const;
  /// The world's communicator (MpiComm, or SelfComm alone).
  Communicator& comm();

  /// Starts the watchdog: each rank reports (sequence, collective, bytes, stage) each second; a
  /// rank without progress for `timeout` seconds is named and the job ends with 3. `trace` tells
  /// the stage and must outlive this object or be replaced.
  void start_watchdog(double timeout_seconds, const Trace& trace);
  /// While true, no progress is expected (loading, saving, evaluation of unequal parts): never
  /// needed between steps.
  void pause_watchdog(bool paused);

  /// Ends every rank with `code`: the text is printed once, last on stderr, flushed before any rank
  /// ends. Callable from one rank alone (others may be inside collectives) or from several at once
  /// (the lowest rank's text is printed). An empty text prints nothing. Does not return.
  [[noreturn]] void end_all(ExitCode code, const std::string& text);
  /// The orderly end: waits for every rank, then finalizes MPI. Called by the destructor if not
  /// before.
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrm
