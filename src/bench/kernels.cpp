#include "kernels.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernels_clock.h"
#include "machine_text.h"
#include "memory_check.h"

namespace dlrm::bench {
namespace {

constexpr double kGroupSeconds = 0.02;
constexpr int kMostCalls = 1000;
constexpr double kShortSeconds = 2e-4;

template <class T>
void fill(T& size, T value) {
  if (size == 0) size = value;
}

/// The larger of the row's shares of its two limits.
double share_of(const KernelRow& row, KernelClock& clock) {
  double seconds = row.bytes / clock.limits.bytes_per_second;
  if (row.flops > 0) {
    const bool narrow = row.name.find("bf16") != std::string::npos;
    const DType type = narrow ? DType::kBFloat16 : DType::kFloat32;
    seconds = std::max(seconds, row.flops / product_limit(clock, type));
  }
  return seconds / row.seconds;
}

std::shared_ptr<Device> device_for(const std::string& asked) {
  const bool there = built_with_cuda() && cuda_device_count() > 0;
  return asked == "cuda" || (asked == "auto" && there) ? make_cuda_device(0) : make_cpu_device();
}

}  // namespace

void KernelSizes::fill_for(const Device& device) {
  const bool cpu = !device.runs_cuda();
  fill<int64_t>(batch, cpu ? 2048 : 65536);
  fill<int64_t>(tables, cpu ? 4 : 8);
  fill<int64_t>(rows, cpu ? 250000 : 4000000);
  fill<int64_t>(matrix, cpu ? 1024 : 8192);
  fill<int64_t>(copied, cpu ? 128000000 : 2000000000);
}

double KernelSizes::bytes() const {
  const auto real = [](int64_t value) { return static_cast<double>(value); };
  const double b = real(batch), w = real(width);
  const double stored = real(tables) * real(rows) * w * 2 * 4;  // with the optimizer's state
  const double ids = b * real(tables) * real(hotness) * 2 * 8;
  const double vectors = b * (real(tables) + real(features) + 1) * w * 2 * 4;
  const double products =
      b * (real(features) * real(features) + 4 * real(layer) + 9 * real(crossed)) * 4;
  const double weights = 3 * (real(matrix) * real(matrix) + real(layer) * real(layer)) * 4;
  return stored + ids + vectors + products + weights + 2 * real(copied) + 4 * real(parameters) * 4;
}

KernelClock::Timing KernelClock::timing_of(const std::function<void()>& call) {
  call();  // allocates memory and chooses algorithms, once
  stream.synchronize();
  const double begin = now_seconds();
  call();
  stream.synchronize();
  // Launches a graph, because the host would take longer to queue a short call than the device to
  // run it.
  if (now_seconds() - begin > kShortSeconds || !stream.begin_capture()) return groups_of(call);
  call();
  const std::unique_ptr<Graph> graph = stream.end_capture();
  const Timing timing = groups_of([&] { graph->launch(stream); });
  stream.synchronize();
  return timing;
}

KernelClock::Timing KernelClock::groups_of(const std::function<void()>& call) {
  const auto group_seconds = [&](int calls) {
    const double begin = now_seconds();
    for (int i = 0; i < calls; ++i) call();
    stream.synchronize();
    return (now_seconds() - begin) / calls;
  };
  const double once = group_seconds(1);
  const int calls = static_cast<int>(std::clamp(kGroupSeconds / once, 1.0, double{kMostCalls}));
  std::vector<double> seconds;
  const double end = now_seconds() + options.seconds;
  while (seconds.size() < 3 || now_seconds() < end) seconds.push_back(group_seconds(calls));
  std::sort(seconds.begin(), seconds.end());
  return {seconds.front(), seconds[seconds.size() / 2]};
}

void KernelClock::time(KernelRow row, const std::function<void()>& call,
                       const std::function<std::string()>& note) {
  if (!wants(row.name)) return;
  const Timing timing = timing_of(call);
  row.seconds = timing.best;
  row.median = timing.median;
  if (note) row.note = note();
  row.share = share_of(row, *this);
  if (!device.runs_cuda()) row.goal = 0;
  report(row_line(row));
  rows.push_back(std::move(row));
}

Array<char> KernelClock::numbers(int64_t rows, int64_t cols, DType type, const char* what) {
  Array<char> array(device, static_cast<size_t>(rows * cols) * size_of(type), what);
  RowTable table;
  table.weights = array.data();
  table.type = type;
  table.rows = rows;
  table.width = table.stride = cols;
  ops.fill_rows(1, 0, 0, {InitType::kUniform, 1}, table);
  return array;
}

KernelResult time_kernels(Device& device, Stream& stream, Ops& ops, const KernelOptions& options) {
  KernelClock clock(device, stream, ops, options);
  KernelResult result;
  result.device = device.describe();
  result.execution = ops.name();
  clock.report(head_line(options, result));
  time_copies(clock);
  time_lookups(clock);
  time_interactions(clock);
  time_layers(clock);
  time_dense(clock);
  if (options.sizes.variants) time_lookups_of_models(clock);
  result.limits = clock.limits;
  result.rows = std::move(clock.rows);
  return result;
}

KernelResult time_kernels(KernelOptions& options) {
  const std::shared_ptr<Device> device = device_for(options.device);
  const std::unique_ptr<Stream> stream = device->make_stream();
  CudaOpsOptions products;
  products.tf32 = options.tf32;
  products.timed_products = 8;
  const std::unique_ptr<Ops> ops = device->runs_cuda()
                                       ? make_cuda_ops(*device, *stream, products)
                                       : make_cpu_ops(*device, *stream, options.threads);
  options.sizes.fill_for(*device);
  if (!device->runs_cuda() || cuda_is_emulated()) {
    check_memory("these sizes", options.sizes.bytes(), options.memory_bytes);
  }
  return time_kernels(*device, *stream, *ops, options);
}

KernelLine head_line(const KernelOptions& options, const KernelResult& result) {
  const KernelSizes& s = options.sizes;
  nlohmann::ordered_json object;
  object["device"] = result.device;
  object["execution"] = result.execution;
  object["processor"] = processor_name();
  object["sizes"] = {{"batch", s.batch},     {"tables", s.tables}, {"rows", s.rows},
                     {"hotness", s.hotness}, {"width", s.width},   {"features", s.features},
                     {"matrix", s.matrix},   {"copied", s.copied}, {"layer", s.layer},
                     {"crossed", s.crossed}, {"rank", s.rank},     {"parameters", s.parameters}};
  return {fmt::format("{}\n{:<44} {:>26} {:>10} {:>10} {:>9} {:>9} {:>6} {:>5}", result.device,
                      "operation", "shape", "ms", "median", "GB/s", "GFLOP/s", "share", "goal"),
          object.dump()};
}

KernelLine limit_line(const std::string& name, double per_second, bool bytes) {
  const double giga = per_second * 1e-9;
  const nlohmann::ordered_json object = {{"limit", name},
                                         {bytes ? "gb_per_second" : "gflops", giga}};
  return {fmt::format("limit: {} {:.1f} {}", name, giga, bytes ? "GB/s" : "GFLOP/s"),
          object.dump()};
}

KernelLine row_line(const KernelRow& row) {
  nlohmann::ordered_json object = {{"name", row.name},
                                   {"shape", row.shape},
                                   {"milliseconds", row.seconds * 1e3},
                                   {"median_milliseconds", row.median * 1e3},
                                   {"bytes", row.bytes},
                                   {"gb_per_second", row.bytes / row.seconds * 1e-9}};
  if (row.flops > 0) object["gflops"] = row.flops / row.seconds * 1e-9;
  object["share"] = row.share;
  if (row.goal > 0) object["goal"] = row.goal;
  if (!row.note.empty()) object["note"] = row.note;
  const std::string flops =
      row.flops > 0 ? fmt::format("{:.0f}", row.flops / row.seconds * 1e-9) : "";
  return {fmt::format("{:<44} {:>26} {:>10.4f} {:>10.4f} {:>9.1f} {:>9} {:>5.0f}% {:>5}{}{}",
                      row.name, row.shape, row.seconds * 1e3, row.median * 1e3,
                      row.bytes / row.seconds * 1e-9, flops, row.share * 100,
                      row.goal > 0 ? fmt::format("{:.0f}%", row.goal * 100) : "",
                      row.note.empty() ? "" : "  ", row.note),
          object.dump()};
}

}  // namespace dlrm::bench
