// On which streams operations of a GPU launch kernels and call libraries.
#if defined(DLRM_SIMT)
#include <memory>
#include <set>
#include <string>

#include "dlrm/device/stream_recording.h"

#include "checked_cases.h"
#include "fixture.h"

namespace dlrm {
namespace {

/// A launch on another stream is not ordered with the calls before and after. Results show that
/// only if it starts too early or ends too late.
TEST(Lanes, OnlyTheBackwardOfALayerUsesASecondStream) {
  auto device = make_cuda_device(0);
  auto stream = device->make_stream();
  const std::unique_ptr<Event> begun = device->make_event();
  Stream& own = *stream;
  const auto ops =
      make_mirrored_ops(device, std::move(stream), make_cuda_ops(*device, own, CudaOpsOptions()));
  std::set<std::string> elsewhere;
  size_t launches = 0;
  for (const CheckedCase& of : checked_cases()) {
    if (of.name.starts_with("group_rows")) continue;  // without the room that a GPU needs
    const auto recorder = record_streams([] { return 0; });
    own.record(*begun);  // so that this stream is number 0
    of.run(*ops);
    own.synchronize();
    for (const QueuedOperation& o : recorder->take().operations) {
      using Kind = QueuedOperation::Kind;
      if (o.kind != Kind::kKernel && o.kind != Kind::kLibrary) continue;
      ++launches;
      if (o.stream != 0) elsewhere.insert(of.name);
    }
  }
  EXPECT_GT(launches, 300u);
  for (const std::string& name : elsewhere) {
    EXPECT_EQ(name.substr(0, 15), "linear_backward") << name;
  }
  EXPECT_TRUE(elsewhere.contains("linear_backward fp32 none"));
}

}  // namespace
}  // namespace dlrm
#endif
