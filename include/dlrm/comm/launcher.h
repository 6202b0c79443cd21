#pragma once

namespace dlrm::comm {

/// How this process was started, according to its environment variables.
struct Launch {
  bool parallel = false;  ///< mpirun or srun started several ranks; otherwise MPI is not needed
  int srun_tasks = 0;     ///< tasks of the srun step; 0 without srun
  /// srun gave its tasks no PMI, through which they would find one another.
  bool lone_tasks = false;
};

Launch detect_launch();

}  // namespace dlrm::comm
