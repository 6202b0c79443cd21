// The use of a GPU, as a stand-in for the driver's library tells it.
#if defined(DLRM_SIMT)
#include "dlrm/device/utilisation.h"

#include "gpu_fixture.h"
#include "simt/simt.h"

extern "C" int fake_nvml_failing, fake_nvml_open;

namespace dlrm {
namespace {

class UtilisationOfGpu : public OnGpu {
 protected:
  UtilisationOfGpu() { fake_nvml_failing = 0; }
  ~UtilisationOfGpu() override { fake_nvml_failing = 1; }
};

TEST_F(UtilisationOfGpu, IsWhatTheDriverTells) {
  {
    const auto probe = make_utilisation_probe(*device);
    ASSERT_TRUE(probe);
    EXPECT_EQ(fake_nvml_open, 1);
    const auto use = probe->read();
    ASSERT_TRUE(use);
    EXPECT_EQ(use->busy_share, 0.5);
    EXPECT_EQ(use->memory_busy_share, 0.25);
    EXPECT_EQ(use->memory_used, 600u);
    EXPECT_EQ(use->memory_total, 1000u);
    for (const int answer : {3, 4}) {
      fake_nvml_failing = answer;
      EXPECT_FALSE(probe->read());
    }
  }
  EXPECT_EQ(fake_nvml_open, 0);
}

TEST_F(UtilisationOfGpu, IsUnknownIfTheDriverDoesNotKnowTheGpu) {
  for (const int call : {1, 2}) {
    fake_nvml_failing = call;
    EXPECT_EQ(make_utilisation_probe(*device), nullptr);
    EXPECT_EQ(fake_nvml_open, 0);
  }
  fake_nvml_failing = 0;
  const simt::OnCalls no_bus([](const std::string& call) {
    return call == "cudaDeviceGetPCIBusId" ? cudaErrorInvalidValue : cudaSuccess;
  });
  EXPECT_EQ(make_utilisation_probe(*device), nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace dlrm
#endif
