#include "dlrm/device/utilisation.h"

#include <dlfcn.h>

#include "dlrm/device/cuda/runtime.h"

namespace dlrm {
namespace {

// The part of NVML's C interface that this file uses. It is stable across drivers.
using NvmlDevice = void*;
struct NvmlShares {
  unsigned int gpu, memory;  // percent
};
struct NvmlMemory {
  unsigned long long total, free, used;
};
constexpr int kSuccess = 0;

/// libnvidia-ml.so.1 of the driver, if it can be loaded.
class Nvml {
 public:
  Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) return;
    find("nvmlInit_v2", init_);
    find("nvmlShutdown", shutdown_);
    find("nvmlDeviceGetHandleByPciBusId_v2", by_bus_);
    find("nvmlDeviceGetUtilizationRates", shares_);
    find("nvmlDeviceGetMemoryInfo", memory_);
    ready_ = init_ && shutdown_ && by_bus_ && shares_ && memory_ && init_() == kSuccess;
  }
  ~Nvml() {
    if (ready_) shutdown_();
    if (library_) ::dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  NvmlDevice device(const char* bus) const {
    NvmlDevice found = nullptr;
    return ready_ && by_bus_(bus, &found) == kSuccess ? found : nullptr;
  }
  std::optional<Utilisation> read(NvmlDevice device) const {
    NvmlShares shares{};
    NvmlMemory memory{};
    if (shares_(device, &shares) != kSuccess || memory_(device, &memory) != kSuccess) return {};
    return Utilisation{shares.gpu / 100.0, shares.memory / 100.0, memory.used, memory.total};
  }

 private:
  template <class F>
  void find(const char* name, F*& function) {
    function = reinterpret_cast<F*>(::dlsym(library_, name));
  }

  void* library_;
  bool ready_ = false;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*by_bus_)(const char*, NvmlDevice*) = nullptr;
  int (*shares_)(NvmlDevice, NvmlShares*) = nullptr;
  int (*memory_)(NvmlDevice, NvmlMemory*) = nullptr;
};

class NvmlProbe final : public UtilisationProbe {
 public:
  explicit NvmlProbe(const char* bus) : device_(nvml_.device(bus)) {}
  bool found() const { return device_ != nullptr; }
  std::optional<Utilisation> read() override { return nvml_.read(device_); }

 private:
  Nvml nvml_;
  NvmlDevice device_;
};

}  // namespace

std::unique_ptr<UtilisationProbe> make_utilisation_probe(Device& device) {
  if (!device.runs_cuda()) return nullptr;
  char bus[32] = {};
  // The emulator has no PCI bus.
  if (cudaDeviceGetPCIBusId(bus, sizeof(bus), cuda::facts(device).index) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  auto probe = std::make_unique<NvmlProbe>(bus);
  if (!probe->found()) return nullptr;
  return probe;
}

}  // namespace dlrm
