#include <fstream>
#include <sstream>

#include <fmt/core.h>

#include "dlrm/comm/preflight.h"

#include "comm/device/device_choice.h"
#include "nccl_library.h"

namespace dlrm {
namespace {

/// Parses "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  Wed ...".
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line, word;
  std::getline(file, line);
  std::istringstream words(line);
  while (words >> word) {
    if (word.find('.') != std::string::npos && word[0] >= '0' && word[0] <= '9') return word;
  }
  return "";
}

std::string pairs_without_peer_access(int gpus) {
  std::string pairs;
  for (int a = 0; a < gpus; ++a) {
    for (int b = a + 1; b < gpus; ++b) {
      int there = 0, back = 0;
      cudaDeviceCanAccessPeer(&there, a, b);
      cudaDeviceCanAccessPeer(&back, b, a);
      if (!there || !back) pairs += fmt::format("{}{}-{}", pairs.empty() ? "" : " ", a, b);
    }
  }
  return pairs;
}

}  // namespace

GpuReport inspect_gpus() {
  GpuReport report;
  report.built = true;
  report.driver = driver_version();
  cudaDriverGetVersion(&report.driver_cuda);
  cudaRuntimeGetVersion(&report.program_cuda);
  if (cudaGetDeviceCount(&report.gpus) != cudaSuccess) report.gpus = 0;
  if (report.gpus > 0) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, 0) == cudaSuccess) report.name = properties.name;
    report.without_peer = pairs_without_peer_access(report.gpus);
  }
  cudaGetLastError();
  const comm::NcclLibrary& nccl = comm::nccl_library();
  report.nccl_obstacle = nccl.obstacle;
  if (nccl.version > 0) report.nccl = comm::nccl_version_text(nccl.version);
  return report;
}

}  // namespace dlrm
