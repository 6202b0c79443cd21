#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "timeline.h"

namespace dlrm::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

double in_ms(double seconds) { return 1e3 * seconds; }

/// "50", or "50 to 52" over the ranks.
template <class Get>
std::string over_ranks(const std::vector<LaunchCounts>& ranks, const Get& get) {
  int least = get(ranks.front()), most = least;
  for (const LaunchCounts& counts : ranks) {
    least = std::min(least, get(counts));
    most = std::max(most, get(counts));
  }
  return least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
}

}  // namespace

std::string to_table(const TimelineOptions& options, const TimelineResult& result) {
  const double step = result.end - result.begin;
  const auto batch = static_cast<double>(options.config.train.global_batch_size);
  std::string text = fmt::format(
      "{}, batch {}, {} ranks, {}\n"
      "counted in the emulator, per rank and step, at batch {} and at most {} rows of a table:\n",
      options.config_path, options.config.train.global_batch_size, options.ranks,
      result.machine.name, result.emulated_batch, options.rows);
  const auto line = [&](const char* what, const auto& get) {
    text += fmt::format("  {:<40}{}\n", what, over_ranks(result.counts, get));
  };
  using Counts = LaunchCounts;
  line("kernels", [](const Counts& c) { return c.kernels; });
  line("library calls", [](const Counts& c) { return c.library_calls; });
  line("fills", [](const Counts& c) { return c.fills; });
  line("launches: the sum of these", [](const Counts& c) { return c.launches(); });
  line("collectives", [](const Counts& c) { return c.collectives; });
  line("copies", [](const Counts& c) { return c.copies; });
  line("waits that block the host", [](const Counts& c) { return c.host_waits; });
  line("ends that the host polls for", [](const Counts& c) { return c.host_polls; });
  text += fmt::format(
      "modelled at the config's sizes, not measured:\n"
      "  {:<40}{:.4f}\n  {:<40}{:.0f}\n  {:<40}{:.4f}\n  {:<40}{:.4f}\n",
      "step, ms", in_ms(step), "samples/s", batch / step, "collectives, ms", in_ms(result.exchange),
      "of them exposed, ms", in_ms(result.exposed));
  return text;
}

std::string to_json(const TimelineOptions& options, const TimelineResult& result) {
  OrderedJson json;
  json["config"] = options.config_path;
  json["batch"] = options.config.train.global_batch_size;
  json["ranks"] = options.ranks;
  json["machine"] = {{"name", result.machine.name}, {"hash", result.machine.hash}};
  json["emulated"] = {{"batch", result.emulated_batch}, {"most_rows", options.rows}};
  json["counted"] = OrderedJson::array();
  for (const LaunchCounts& c : result.counts) {
    json["counted"].push_back({{"kernels", c.kernels},
                               {"library_calls", c.library_calls},
                               {"fills", c.fills},
                               {"copies", c.copies},
                               {"collectives", c.collectives},
                               {"host_waits", c.host_waits},
                               {"host_polls", c.host_polls}});
  }
  json["modelled"] = {{"step_ms", in_ms(result.end - result.begin)},
                      {"collectives_ms", in_ms(result.exchange)},
                      {"exposed_ms", in_ms(result.exposed)}};
  json["operations"] = OrderedJson::array();
  for (size_t i = 0; i < result.operations.size(); ++i) {
    const TimelineOperation& o = result.operations[i];
    if (o.kind == QueuedOperation::Kind::kMark && !o.collective) continue;
    json["operations"].push_back({{"name", o.name},
                                  {"step", o.place.step},
                                  {"stage", o.place.stage},
                                  {"rank", o.collective ? -1 : o.place.rank},
                                  {"streams", o.streams},
                                  {"begin_ms", in_ms(o.begin)},
                                  {"end_ms", in_ms(o.end)}});
  }
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace dlrm::bench
