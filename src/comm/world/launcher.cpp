#include "dlrm/comm/launcher.h"

#include <cstdlib>

namespace dlrm::comm {
namespace {

int number(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? std::atoi(value) : 0;
}

bool is_set(const char* variable) { return std::getenv(variable) != nullptr; }

}  // namespace

Launch detect_launch() {
  Launch launch;
  // Batch scripts also have SLURM_PROCID. Only srun sets the variables of a step.
  if (is_set("SLURM_STEP_ID") && is_set("SLURM_PROCID")) {
    launch.srun_tasks = number("SLURM_STEP_NUM_TASKS");
  }
  if (is_set("OMPI_COMM_WORLD_SIZE")) {
    launch.parallel = number("OMPI_COMM_WORLD_SIZE") > 1;
  } else if (is_set("PMI_SIZE")) {
    launch.parallel = number("PMI_SIZE") > 1;
  } else {
    launch.parallel = is_set("PMI_RANK") || is_set("PMIX_RANK") || launch.srun_tasks > 1;
  }
  launch.lone_tasks = launch.srun_tasks > 1 && !is_set("OMPI_COMM_WORLD_SIZE") &&
                      !is_set("PMI_RANK") && !is_set("PMIX_RANK");
  return launch;
}

}  // namespace dlrm::comm
