#include "dlrm/device/device.h"

namespace dlrm {

bool built_with_cuda() { return false; }

int cuda_device_count() { return 0; }

std::shared_ptr<Device> make_cuda_device(int) {
  throw usage_error(
      "device cuda: this build has no CUDA; `launch/build.sh cuda` makes one that has");
}

}  // namespace dlrm
