#pragma once
#include <string>

namespace dlrm {

/// Returns MPI's name and version: "Open MPI v4.1.4". MPI need not be started.
std::string mpi_version();

/// The GPUs and GPU libraries that this process can use.
struct GpuReport {
  bool built = false;         ///< this program was built with CUDA
  std::string driver;         ///< version of NVIDIA's driver, "580.82.07"; empty: none
  int driver_cuda = 0;        ///< newest CUDA version that the driver supports; 13000 is 13.0
  int program_cuda = 0;       ///< CUDA version of this program
  int gpus = 0;               ///< visible to this process
  std::string name;           ///< of the first GPU
  std::string without_peer;   ///< pairs of GPUs without peer access: "0-3 1-2"
  std::string nccl;           ///< version, "2.28.9"; empty: none
  std::string nccl_obstacle;  ///< why NCCL cannot be used; empty if it can
};

/// Holds no resources after it returns.
GpuReport inspect_gpus();

}  // namespace dlrm
