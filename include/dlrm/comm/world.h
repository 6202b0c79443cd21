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

  /// Each rank computes with that many threads: where they are more than the cores of the machine,
  /// or than a control group grants, a rank that waits gives its core away at once.
  void use_threads(int threads);

  /// Starts the watchdog: each rank reports (sequence, collective, bytes, stage) each second; a
  /// rank without progress for `timeout` seconds is named and the job ends with 3. Progress is a
  /// call entered or completed on comm() or its duplicates, or another stage of `trace`. Called
  /// again, it watches that trace.
  void start_watchdog(double timeout_seconds, const Trace& trace);
  /// While true on any rank, none is taken for stalled (loading, saving, evaluation of unequal
  /// parts): never needed between steps. A rank that no longer answers is named all the same.
  void pause_watchdog(bool paused);

  /// Ends every rank with `code`: the text is printed once, last on stderr, flushed before any rank
  /// ends. Callable from one rank alone (others may be inside collectives) or from several at once
  /// (the lowest rank's text is printed). The line begins with "error: " unless the code is kDone
  /// or kStopped; an empty text prints nothing. No destructors run: what is to be kept must be
  /// written before. Does not return.
  [[noreturn]] void end_all(ExitCode code, const std::string& text);
  /// The orderly end: waits for every rank, then finalizes MPI. Called by the destructor if not
  /// before.
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrm
