// Limits of the device, measured without our kernels.
#include <fmt/format.h>

#include "kernels_clock.h"

namespace dlrm::bench {
namespace {

double copy_rate(KernelClock& clock) {
  const auto bytes = static_cast<size_t>(clock.options.sizes.copied);
  const Array<char> from(clock.device, bytes, "what is copied");
  const Array<char> to(clock.device, bytes, "a copy");
  const double seconds =
      clock.seconds_of([&] { clock.device.copy(to.data(), from.data(), bytes, clock.stream); });
  return 2 * static_cast<double>(bytes) / seconds;
}

double product_rate(KernelClock& clock, DType type) {
  const int64_t n = clock.options.sizes.matrix;
  const Array<char> x = clock.numbers(n, n, type, "a factor");
  const Array<char> w = clock.numbers(n, n, type, "a factor");
  const Array<char> y = clock.numbers(n, n, type, "a product");
  const double seconds = clock.seconds_of([&] {
    clock.ops.linear_forward({x.data(), type, n, n}, {w.data(), type, n, n}, {}, Activation::kNone,
                             {y.data(), type, n, n}, {});
  });
  const auto size = static_cast<double>(n);
  return 2 * size * size * size / seconds;
}

/// The rate between a GPU and its host, each direction separately.
void time_link(KernelClock& clock) {
  const auto bytes = static_cast<size_t>(clock.options.sizes.copied);
  if (clock.device.host_visible_memory() ||
      !(clock.wants("copy from host") || clock.wants("copy to host")))
    return;
  const Array<char> there(clock.device, bytes, "what is copied");
  const HostArray<char> here(clock.device, bytes, "what is copied");
  KernelRow row{.name = "copy from host", .shape = fmt::format("{}", bytes)};
  row.bytes = static_cast<double>(bytes);
  clock.time(row, [&] { clock.device.copy(there.data(), here.data(), bytes, clock.stream); });
  row.name = "copy to host";
  clock.time(row, [&] { clock.device.copy(here.data(), there.data(), bytes, clock.stream); });
}

}  // namespace

void time_copies(KernelClock& clock) {
  clock.limits.bytes_per_second = copy_rate(clock);
  clock.report(limit_line("copy", clock.limits.bytes_per_second, true));
  time_link(clock);
}

/// A product without bias or activation is the library's own.
double product_limit(KernelClock& clock, DType type) {
  const bool narrow = type == DType::kBFloat16;
  double& limit = narrow ? clock.limits.flops_bf16 : clock.limits.flops_fp32;
  if (limit == 0) {
    limit = product_rate(clock, type);
    clock.report(limit_line(narrow ? "product bf16" : "product fp32", limit, false));
  }
  return limit;
}

}  // namespace dlrm::bench
