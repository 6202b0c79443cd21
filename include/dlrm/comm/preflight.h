#pragma once
#include <string>

namespace dlrm {

/// MPI's own name and version: "Open MPI v4.1.4". Before MPI is started, too.
std::string mpi_version();

/// What this process finds of GPUs and their libraries, without keeping any of it.
struct GpuReport {
  bool built = false;        ///< this program has CUDA
  std::string driver;        ///< NVIDIA's driver, "580.82.07"; empty: none
  int driver_cuda = 0;       ///< newest CUDA that it serves, 13000 is 13.0
  int program_cuda = 0;      ///< CUDA of this program
  int gpus = 0;              ///< offered to this process
  std::string name;          ///< of the first
  std::string without_peer;  ///< pairs of GPUs that cannot reach each other's memory: "0-3 1-2"
  std::string nccl;          ///< "2.28.9"; empty: not there
  std::string nccl_obstacle;
};
GpuReport inspect_gpus();

}  // namespace dlrm
