#include "dlrm/comm/world.h"

#include <exception>

#include "dlrm/core/log.h"

#include "launcher.h"
#include "mpi_c.h"
#include "mpi_comm.h"
#include "node.h"
#include "progress.h"
#include "self_comm.h"
#include "service.h"
#include "shared_node.h"
#include "signals.h"

namespace dlrm {
namespace {

MPI_Comm ranks_of_this_node() {
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm),
            "MPI_Comm_split_type");
  return comm;
}

/// What MPI grants of MPI_THREAD_MULTIPLE.
int start_mpi(int* argc, char*** argv) {
  const SignalsBlocked blocked;  // inherited by the threads that MPI starts
  int granted = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &granted), "MPI_Init_thread");
  return granted;
}

MPI_Comm copy_of_world() {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "MPI_Comm_dup");
  return copy;
}

}  // namespace

class World::Impl {
 public:
  Impl(int* argc, char*** argv) {
    const Launch launch = find_launch();
    if (launch.parallel) {
      join(argc, argv, launch);
    } else {
      node_ = this_node();
      engine_ = std::make_shared<ProgressEngine>(Waiting::kSpin);
      comm_ = make_self_comm(engine_);
      service_ = std::make_unique<Service>(0, 1, nullptr, engine_);
    }
  }

  ~Impl() {
    if (std::uncaught_exceptions() > exceptions_) {
      service_->end_all(ExitCode::kFailure, "ended by an exception that nobody reported");
    }
    finish();
  }

  void finish() {
    if (finished_) return;
    finished_ = true;
    if (comm_->size() > 1) {
      comm_->barrier();
      service_->hush();
      comm_->barrier();  // nobody sends reports any more
    }
    service_->stop();
    if (!mpi_) return;
    comm_.reset();
    MPI_Finalize();
  }

  Waiting waiting(int threads) const {
    if (node_.crowded(threads)) return Waiting::kYield;
    return node_.whole ? Waiting::kSpin : Waiting::kSpinForMessages;
  }

  Node node_;
  std::shared_ptr<ProgressEngine> engine_;
  std::shared_ptr<SharedNode> memory_;  // outlives what was allocated there
  std::unique_ptr<Communicator> comm_;
  std::unique_ptr<Service> service_;

 private:
  void join(int* argc, char*** argv, const Launch& launch) {
    const int granted = start_mpi(argc, argv);
    mpi_ = true;
    MPI_Comm beside = ranks_of_this_node();
    node_ = find_node(MPI_COMM_WORLD, beside);
    std::string why_not;
    memory_ = SharedNode::make(MPI_COMM_WORLD, beside, why_not);
    MPI_Comm_free(&beside);
    engine_ = std::make_shared<ProgressEngine>(waiting(1));
    comm_ = make_mpi_comm(copy_of_world(), engine_, memory_);
    if (!why_not.empty()) {
      Log(comm_->rank()).info("ranks of a machine exchange through MPI: {}", why_not);
    }
    std::unique_ptr<Wire> wire;
    if (granted == MPI_THREAD_MULTIPLE && comm_->size() > 1) {
      wire = make_mpi_wire(copy_of_world());
    } else if (comm_->size() > 1) {
      Log(comm_->rank()).info("warning: this MPI allows one thread only: there is no watchdog");
    }
    service_ = std::make_unique<Service>(comm_->rank(), comm_->size(), std::move(wire), engine_);
    if (comm_->size() == 1 && launch.srun_tasks > 1) {
      throw usage_error(
          "srun started {} ranks that do not know of one another: try srun --mpi=pmix",
          launch.srun_tasks);
    }
  }

  bool mpi_ = false;
  bool finished_ = false;
  const int exceptions_ = std::uncaught_exceptions();
};

World::World(int* argc, char*** argv) : impl_(std::make_unique<Impl>(argc, argv)) {}
World::~World() = default;

int World::rank() const { return impl_->comm_->rank(); }
int World::size() const { return impl_->comm_->size(); }
int World::local_rank() const { return impl_->node_.rank; }
int World::local_size() const { return impl_->node_.size; }
Communicator& World::comm() { return *impl_->comm_; }

void World::use_threads(int threads) {
  if (impl_->comm_->size() > 1) impl_->engine_->set_waiting(impl_->waiting(threads));
}

void World::start_watchdog(double timeout_seconds, const Trace& trace) {
  impl_->service_->start_watchdog(timeout_seconds, trace);
}
void World::pause_watchdog(bool paused) { impl_->service_->pause(paused); }
void World::end_all(ExitCode code, const std::string& text) {
  impl_->service_->end_all(code, text);
}
void World::finish() { impl_->finish(); }

}  // namespace dlrm
