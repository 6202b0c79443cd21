#include "dlrm/comm/device_comm.h"
#include "dlrm/comm/preflight.h"

#include "nccl_comm.h"

namespace dlrm {

std::string gpu_identity(Device&) { return ""; }

GpuReport inspect_gpus() { return {}; }

namespace comm {

std::string why_no_nccl(Device&) { return "this build has no CUDA"; }

int nccl_version() { return 0; }

std::unique_ptr<Communicator> make_nccl_comm(Communicator&, Device&) {
  throw usage_error("comm nccl: this build has no CUDA; `launch/build.sh cuda` makes one that has");
}

}  // namespace comm
}  // namespace dlrm
