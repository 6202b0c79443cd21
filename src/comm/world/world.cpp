#include "dlrm/comm/world.h"

#include <cstdlib>
#include <exception>
#include <fstream>

#include <fmt/core.h>
#include <unistd.h>

#include "dlrm/comm/launcher.h"
#include "dlrm/comm/preflight.h"
#include "dlrm/core/background_thread.h"
#include "dlrm/core/log.h"

#include "comm/calls/progress_engine.h"
#include "comm/control/control_thread.h"
#include "comm/control/job_end.h"
#include "comm/control/stopped_ranks.h"
#include "comm/control/wait_limit.h"
#include "comm/mpi/mpi_c.h"
#include "comm/mpi/mpi_comm.h"
#include "comm/mpi/mpi_nodes.h"
#include "comm/shared/shared_memory_group.h"
#include "comm/threads/self_comm.h"
#include "local_ranks.h"

namespace dlrm {
namespace {

using comm::check_mpi;
using comm::ControlThread;
using comm::WaitLimit;
using comm::WaitPolicy;

MPI_Comm ranks_of_this_machine(MPI_Comm world) {
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm),
            "MPI_Comm_split_type");
  return comm;
}

/// Returns the thread level that MPI provides; MPI_THREAD_MULTIPLE is requested.
int start_mpi(int* argc, char*** argv) {
  const SignalsBlocked blocked;  // inherited by the threads that MPI starts
  int granted = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &granted), "MPI_Init_thread");
  return granted;
}

MPI_Comm copy_of(MPI_Comm world) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(world, &copy), "MPI_Comm_dup");
  return copy;
}

/// Makes only calls that MPI allows at any time.
void check_mpi_runs() {
  int started = 0, ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (started && !ended) return;
  throw usage_error("{} does not run in this process: the communicator must be one of this library",
                    mpi_version());
}

/// Ends this process. Nobody catches an exception of the constructor.
[[noreturn]] void end_lone_task(const comm::Launch& launch, int rank) {
  const int code = static_cast<int>(ExitCode::kUsage);
  if (rank == 0) {
    comm::print_last_line(
        code,
        fmt::format("srun started {} ranks that do not know of one another: try srun --mpi=pmix",
                    launch.srun_tasks));
  }
  ::_exit(code);
}

/// Returns the ranks of this process's node. If the environment names no valid nodes, all ranks end
/// after rank 0 has said so.
MPI_Comm ranks_of_this_node(MPI_Comm world, MPI_Comm machine) {
  try {
    return comm::split_into_nodes(machine);
  } catch (const Error& error) {
    const int code = static_cast<int>(error.code());
    int rank = 0;
    MPI_Comm_rank(world, &rank);
    if (rank == 0) comm::print_last_line(code, error.what());
    MPI_Barrier(world);
    ::_exit(code);
  }
}

/// launch/run.sh waits for this file.
void tell_that_ranks_have_met() {
  if (const char* path = std::getenv("DLRM_START_FILE")) std::ofstream(path, std::ios::app);
}

}  // namespace

class World::Impl {
 public:
  Impl(int* argc, char*** argv, double mpi_timeout) : mpi_timeout_(mpi_timeout) {
    const comm::Launch launch = comm::detect_launch();
    // Open MPI would end the program without a word on --mpi=pmix.
    if (launch.lone_tasks) end_lone_task(launch, comm::rank_of_environment());
    if (launch.parallel) {
      limit_ = std::make_unique<WaitLimit>(comm::rank_of_environment());
      limit("MPI to start");
      const int granted = start_mpi(argc, argv);
      ends_mpi_ = true;
      join(MPI_COMM_WORLD, granted);
      if (comm_->size() == 1 && launch.srun_tasks > 1) end_lone_task(launch, 0);
    } else {
      local_ = comm::single_process();
      engine_ = std::make_shared<comm::ProgressEngine>(WaitPolicy::kSpin);
      comm_ = comm::make_self_comm(engine_);
      control_ = std::make_unique<ControlThread>(0, 1, nullptr, engine_);
    }
    if (local_.rank == 0) tell_that_ranks_have_met();
  }

  Impl(RunningMpi mpi, double mpi_timeout) : mpi_timeout_(mpi_timeout) {
    check_mpi_runs();
    const MPI_Comm world = MPI_Comm_f2c(mpi.communicator);
    int rank = 0, granted = MPI_THREAD_SINGLE;
    check_mpi(MPI_Comm_rank(world, &rank), "MPI_Comm_rank");
    check_mpi(MPI_Query_thread(&granted), "MPI_Query_thread");
    limit_ = std::make_unique<WaitLimit>(rank);
    join(world, granted);
  }

  ~Impl() {
    if (std::uncaught_exceptions() > exceptions_) {
      control_->end_all(ExitCode::kFailure, "ended by an exception that was not reported");
    }
    finish();
  }

  void finish() {
    if (finished_) return;
    finished_ = true;
    if (comm_->size() > 1) {
      comm_->barrier();  // ranks may come late: the watchdog, if started, waits for them
      limit("the other ranks to end");
      control_->stop_reports();
      comm_->barrier();  // no rank sends reports after this
    }
    control_->stop();
    if (!limit_) return;
    limit("MPI to end");
    comm_.reset();
    if (ends_mpi_) MPI_Finalize();
    limit_->end(WaitLimit::Who::kMainThread);
  }

  WaitPolicy wait_policy(int threads) const {
    if (local_.oversubscribed(threads)) return WaitPolicy::kYield;
    return local_.all_ranks ? WaitPolicy::kSpin : WaitPolicy::kSpinForever;
  }

  comm::LocalRanks local_;
  std::shared_ptr<comm::ProgressEngine> engine_;
  std::shared_ptr<comm::SharedMemoryGroup>
      memory_;  // destroyed after all memory that is allocated from it
  std::unique_ptr<Communicator> comm_;
  std::unique_ptr<WaitLimit> limit_;  // null without MPI
  std::unique_ptr<ControlThread> control_;

 private:
  /// The watchdog does not see this wait.
  void limit(const char* what) { limit_->begin(WaitLimit::Who::kMainThread, what, mpi_timeout_); }

  void join(MPI_Comm world, int granted) {
    limit("all ranks after MPI started");
    MPI_Comm machine = ranks_of_this_machine(world);
    MPI_Comm node = ranks_of_this_node(world, machine);
    const auto nodes = comm::find_node_layout(world, node);
    local_ = comm::find_local_ranks(machine, *nodes);
    std::string why_not;
    memory_ = comm::SharedMemoryGroup::make(world, node, why_not);
    MPI_Comm_free(&node);
    MPI_Comm_free(&machine);
    engine_ = std::make_shared<comm::ProgressEngine>(wait_policy(1));
    comm_ = comm::make_mpi_comm(copy_of(world), engine_, nodes, memory_);
    if (!why_not.empty()) {
      Log(comm_->rank()).info("ranks of a machine exchange through MPI: {}", why_not);
    }
    std::unique_ptr<comm::ControlChannel> channel;
    if (granted == MPI_THREAD_MULTIPLE && comm_->size() > 1) {
      channel = comm::make_mpi_control_channel(copy_of(world));
    } else if (comm_->size() > 1) {
      Log(comm_->rank()).info("warning: this MPI allows one thread only: there is no watchdog");
    }
    control_ = std::make_unique<ControlThread>(comm_->rank(), comm_->size(), std::move(channel),
                                               engine_, limit_.get());
    limit_->end(WaitLimit::Who::kMainThread);
  }

  const double mpi_timeout_;
  bool ends_mpi_ = false;
  bool finished_ = false;
  const int exceptions_ = std::uncaught_exceptions();
};

World::World(int* argc, char*** argv, double mpi_timeout)
    : impl_(std::make_unique<Impl>(argc, argv, mpi_timeout)) {}
World::World(RunningMpi mpi, double mpi_timeout)
    : impl_(std::make_unique<Impl>(mpi, mpi_timeout)) {}
World::~World() = default;

int World::rank() const { return impl_->comm_->rank(); }
int World::size() const { return impl_->comm_->size(); }
int World::local_rank() const { return impl_->local_.rank; }
int World::local_size() const { return impl_->local_.size; }
Communicator& World::comm() { return *impl_->comm_; }

void World::use_threads(int threads) {
  if (impl_->comm_->size() == 1) return;
  impl_->engine_->set_wait_policy(impl_->wait_policy(threads));
  impl_->engine_->set_threads(threads);
}

void World::start_watchdog(double timeout_seconds, const Trace& trace) {
  impl_->control_->start_watchdog(timeout_seconds, trace);
}
void World::pause_watchdog(bool paused) { impl_->control_->pause_watchdog(paused); }
void World::end_all(ExitCode code, const std::string& text) {
  impl_->control_->end_all(code, text);
}
void World::finish() { impl_->finish(); }

}  // namespace dlrm
