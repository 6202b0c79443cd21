/* Takes the place of the driver's library libnvidia-ml.so.1. A test sets what its functions answer.
 */
#include <string.h>

int fake_nvml_failing =
    1;                  /* the function that fails: 1 init, 2 handle, 3 rates, 4 memory; 0: none */
int fake_nvml_open = 0; /* calls of nvmlInit_v2 less those of nvmlShutdown */

static int result(int function) { return fake_nvml_failing == function ? 999 : 0; }

int nvmlInit_v2(void) {
  if (result(1)) return 999;
  ++fake_nvml_open;
  return 0;
}
int nvmlShutdown(void) {
  --fake_nvml_open;
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  if (strcmp(bus, "0000:00:00.0") != 0) return 2;
  *device = &fake_nvml_open;
  return result(2);
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* shares) {
  shares[0] = device == &fake_nvml_open ? 50 : 0;
  shares[1] = 25;
  return result(3);
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  memory[0] = device == &fake_nvml_open ? 1000 : 0;
  memory[1] = 400;
  memory[2] = 600;
  return result(4);
}
