#pragma once
#include <memory>
#include <string>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/trace.h"

namespace dlrm {

/// An MPI that another part of this process has started and will end, such as mpi4py.
struct RunningMpi {
  int communicator = 0;  ///< Fortran handle (MPI_Comm_c2f) of the ranks that take part
};

/// The ranks that mpirun or srun started together, or this process alone. Starts and ends MPI, runs
/// the watchdog, and ends all ranks if one fails. A single process without a launcher does not
/// start MPI. Create one per process.
class World {
 public:
  /// @param mpi_timeout  seconds for MPI to start and to end, which the watchdog does not see. If a
  ///                     rank waits longer for the others, the job ends with 3 and a message that
  ///                     names the ranks of this machine that are stopped.
  World(int* argc, char*** argv, double mpi_timeout = 300);
  /// The ranks of a communicator, which is copied. Collective among them. MPI continues after
  /// finish(), which must be called before it ends. usage_error if MPI does not run, or if another
  /// MPI library than the one of this program does.
  World(RunningMpi mpi, double mpi_timeout);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const;
  int size() const;
  int local_rank() const;  ///< among the ranks of this node
  int local_size() const;  ///< ranks of this node
  /// The world's communicator, for host memory.
  Communicator& comm();

  /// Sets the number of threads that each rank computes with. If there are more threads than
  /// available cores, waiting ranks yield their core at once. The control group's CPU limit counts.
  void use_threads(int threads);

  /// Starts the watchdog. If a rank makes no progress for `timeout_seconds`, the job ends with exit
  /// code 3 and a message that names the rank. Progress is a call entered or completed on comm() or
  /// its duplicates, or a new stage of `trace`. A second call replaces timeout and trace.
  void start_watchdog(double timeout_seconds, const Trace& trace);
  /// Suspends and resumes the check for progress on all ranks. Use it around work of unequal
  /// length, such as loading and saving. A rank that no longer responds is still detected.
  void pause_watchdog(bool paused);

  /// Ends all ranks with `code`. Does not return and runs no destructors.
  ///
  /// Prints `text` once, last on stderr, before any rank ends. The line begins with "error: "
  /// unless `code` is kDone or kStopped. An empty text prints nothing. One rank may call it alone,
  /// while others are inside collectives. If several call it, the text of the lowest rank is
  /// printed.
  [[noreturn]] void end_all(ExitCode code, const std::string& text);
  /// Waits for all ranks, then ends MPI if this object started it. The destructor calls it if it
  /// has not been called.
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrm
