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
double share_of(const KernelRow& row, const KernelLimits& limits) {
  const bool narrow = row.name.find("bf16") != std::string::npos;
  const double flops = narrow && limits.flops_bf16 > 0 ? limits.flops_bf16 : limits.flops_fp32;
  return std::max(row.bytes / limits.bytes_per_second, flops > 0 ? row.flops / flops : 0) /
         row.seconds;
}

nlohmann::ordered_json json_of(const KernelRow& row) {
  nlohmann::ordered_json object = {{"name", row.name},
                                   {"shape", row.shape},
                                   {"milliseconds", row.seconds * 1e3},
                                   {"median_milliseconds", row.median * 1e3},
                                   {"bytes", row.bytes},
                                   {"gb_per_second", row.bytes / row.seconds * 1e-9}};
  if (row.flops > 0) object["gflops"] = row.flops / row.seconds * 1e-9;
  object["share"] = row.share;
  if (row.goal > 0) object["goal"] = row.goal;
  return object;
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

void KernelClock::time(KernelRow row, const std::function<void()>& call) {
  if (!wants(row.name)) return;
  const Timing timing = timing_of(call);
  row.seconds = timing.best;
  row.median = timing.median;
  rows.push_back(std::move(row));
}

Array<char> KernelClock::numbers(int64_t rows, int64_t cols, DType type, const char* what) {
  Array<char> array(device, static_cast<size_t>(rows * cols) * size_of(type), what);
  RowTable table;
  table.weights = array.data();
  table.type = type;
  table.rows = rows;
  table.width = table.stride = cols;
  ops.fill_uniform(1, 0, 0, 1.0f, table);
  return array;
}

KernelResult time_kernels(Device& device, Stream& stream, Ops& ops, const KernelOptions& options) {
  KernelClock clock(device, stream, ops, options);
  KernelResult result;
  result.device = device.describe();
  result.execution = ops.name();
  result.limits = time_limits(clock);
  time_lookups(clock);
  time_interactions(clock);
  time_dense(clock);
  result.rows = std::move(clock.rows);
  for (KernelRow& row : result.rows) {
    row.share = share_of(row, result.limits);
    if (!device.runs_cuda()) row.goal = 0;
  }
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

std::string to_json(const KernelOptions& options, const KernelResult& result) {
  const KernelSizes& s = options.sizes;
  nlohmann::ordered_json object;
  object["device"] = result.device;
  object["execution"] = result.execution;
  object["processor"] = processor_name();
  object["sizes"] = {{"batch", s.batch},     {"tables", s.tables},        {"rows", s.rows},
                     {"hotness", s.hotness}, {"width", s.width},          {"features", s.features},
                     {"matrix", s.matrix},   {"copied", s.copied},        {"layer", s.layer},
                     {"crossed", s.crossed}, {"parameters", s.parameters}};
  object["limits"] = {{"copy_gb_per_second", result.limits.bytes_per_second * 1e-9},
                      {"gflops_fp32", result.limits.flops_fp32 * 1e-9},
                      {"gflops_bf16", result.limits.flops_bf16 * 1e-9}};
  object["kernels"] = nlohmann::ordered_json::array();
  for (const KernelRow& row : result.rows) object["kernels"].push_back(json_of(row));
  return object.dump(2) + "\n";
}

std::string to_table(const KernelResult& result) {
  std::string text = fmt::format(
      "{}\ncopy {:.1f} GB/s, products {:.0f} GFLOP/s in fp32, {:.0f} in bf16\n"
      "{:<40} {:>26} {:>10} {:>10} {:>9} {:>9} {:>6} {:>5}\n",
      result.device, result.limits.bytes_per_second * 1e-9, result.limits.flops_fp32 * 1e-9,
      result.limits.flops_bf16 * 1e-9, "operation", "shape", "ms", "median", "GB/s", "GFLOP/s",
      "share", "goal");
  for (const KernelRow& row : result.rows) {
    const std::string flops =
        row.flops > 0 ? fmt::format("{:.0f}", row.flops / row.seconds * 1e-9) : "";
    text += fmt::format("{:<40} {:>26} {:>10.4f} {:>10.4f} {:>9.1f} {:>9} {:>5.0f}% {:>5}\n",
                        row.name, row.shape, row.seconds * 1e3, row.median * 1e3,
                        row.bytes / row.seconds * 1e-9, flops, row.share * 100,
                        row.goal > 0 ? fmt::format("{:.0f}%", row.goal * 100) : "");
  }
  return text;
}

}  // namespace dlrm::bench
