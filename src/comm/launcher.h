#pragma once

namespace dlrm {

/// How this process was started, as its environment tells.
struct Launch {
  bool parallel = false;  ///< by mpirun or srun, as one of several ranks
  int srun_tasks = 0;     ///< tasks of the srun step; 0 outside of srun
};

/// A plain process, and the only rank of a job, need no MPI.
Launch find_launch();

}  // namespace dlrm
