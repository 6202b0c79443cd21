#include "dlrm/device/device.h"
#include "dlrm/device/stream_recording.h"
#include "dlrm/device/utilisation.h"

namespace dlrm {

bool built_with_cuda() { return false; }

bool cuda_is_emulated() { return false; }

int cuda_device_count() { return 0; }

std::shared_ptr<Device> make_cuda_device(int) {
  throw usage_error(
      "device cuda: this build has no CUDA; `launch/build.sh cuda` makes one that has");
}

std::unique_ptr<UtilisationProbe> make_utilisation_probe(Device&) { return nullptr; }

std::unique_ptr<StreamRecorder> record_streams(std::function<int()>) { return nullptr; }

}  // namespace dlrm
