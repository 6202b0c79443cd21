#include <charconv>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"

#include "batch_sweep.h"
#include "list_option.h"
#include "machine_text.h"

namespace dlrm::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int64_t kLargestBatch = int64_t{1} << 24;

int64_t parse_batch(const std::string& text, std::string_view word) {
  int64_t value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || stop != end || value < 1 || value > kLargestBatch) {
    throw usage_error("--batches {}: expected 8..1024 (doubling) or 8,32,128, sizes from 1 to {}",
                      text, kLargestBatch);
  }
  return value;
}

OrderedJson point_json(const SweepOptions& options, const SweepPoint& point) {
  const Spread seconds = spread_of(point.seconds);
  OrderedJson json;
  json["batch"] = point.batch;
  json["steps"] = point.steps;
  json["seconds"] = {{"mean", seconds.mean},
                     {"stddev", seconds.deviation},
                     {"min", seconds.least},
                     {"max", seconds.most},
                     {"repeats", point.seconds}};
  json["samples_per_second"] = static_cast<double>(options.samples) / seconds.mean;
  json["core_utilization"] = point.core_utilization;
  json["process_utilization"] = point.process_utilization;
  json["resident_bytes"] = point.resident_bytes;
  json["memory_share"] =
      static_cast<double>(point.resident_bytes) / static_cast<double>(machine_memory_bytes());
  if (const auto share = point.moving_share()) json["moving_share"] = *share;
  if (point.asynchronous) json["recorded_steps"] = point.recorded_steps;
  json["stages_ms"] = point.stages_ms;
  if (point.gpu) {
    json["gpu"] = {{"busy_share", point.gpu->busy_share},
                   {"memory_busy_share", point.gpu->memory_busy_share},
                   {"memory_used", point.gpu->memory_used},
                   {"memory_total", point.gpu->memory_total}};
  }
  return json;
}

OrderedJson moving_stages(const SweepResult& result) {
  OrderedJson names = OrderedJson::array();
  if (result.points.front().asynchronous) return names;
  for (const auto& [name, ms] : result.points.front().stages_ms) {
    if (moves_data(name)) names.push_back(name);
  }
  return names;
}

std::string core_text(const SweepPoint& point) {
  std::vector<std::string> shares;
  for (const double u : point.core_utilization) shares.push_back(fmt::format("{:.0f}", 100 * u));
  if (shares.size() <= 8) return fmt::format("{}", fmt::join(shares, " "));
  double mean = 0;
  for (const double u : point.core_utilization) {
    mean += u / static_cast<double>(shares.size());
  }
  return fmt::format("{:.0f} (mean of {})", 100 * mean, shares.size());
}

}  // namespace

std::vector<int64_t> parse_batches(const std::string& text) {
  return parse_list<int64_t>(
      "--batches", text, [&](std::string_view word) { return parse_batch(text, word); },
      [](int64_t batch) { return batch * 2; });
}

std::string to_json(const SweepOptions& options, const SweepResult& result) {
  OrderedJson json;
  json["config"] = options.config_path;
  json["processor"] = processor_name();
  json["device"] = result.device;
  json["threads"] = result.threads;
  json["samples"] = options.samples;
  json["repeats"] = options.repeats;
  json["machine_memory_bytes"] = machine_memory_bytes();
  json["moving_stages"] = moving_stages(result);
  json["points"] = OrderedJson::array();
  for (const SweepPoint& point : result.points)
    json["points"].push_back(point_json(options, point));
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string to_table(const SweepOptions& options, const SweepResult& result) {
  std::string text =
      fmt::format("{} samples, {} repeats, {} thread{}, {}\n{:>8}{:>12}{:>10}{:>12}{:>12}  {}\n",
                  options.samples, options.repeats, result.threads, result.threads == 1 ? "" : "s",
                  processor_name(), "batch", "seconds", "stddev", "samples/s", "memory MiB",
                  "moving %   cores busy %");
  for (const SweepPoint& point : result.points) {
    const Spread s = spread_of(point.seconds);
    const auto moving = point.moving_share();
    text += fmt::format("{:>8}{:>12.4f}{:>10.4f}{:>12.0f}{:>12.0f}{:>10}   {}\n", point.batch,
                        s.mean, s.deviation, static_cast<double>(options.samples) / s.mean,
                        static_cast<double>(point.resident_bytes) / 0x1p20,
                        moving ? fmt::format("{:.1f}", 100 * *moving) : "-", core_text(point));
  }
  return text;
}

}  // namespace dlrm::bench
