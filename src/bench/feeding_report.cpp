#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "dlrm/core/cpus.h"

#include "feeding.h"
#include "machine_text.h"

namespace dlrm::bench {

using OrderedJson = nlohmann::ordered_json;

std::string to_json(const FeedingOptions& options, const FeedingResult& result) {
  OrderedJson json;
  json["config"] = options.config_path;
  json["data"] = options.data;
  json["processor"] = processor_name();
  json["cpus"] = usable_cpus();
  json["device"] = result.device;
  json["rows"] = options.rows;
  json["rounds"] = options.rounds;
  json["steps"] = OrderedJson::array();
  for (const FeedingStep& step : result.steps) {
    json["steps"].push_back(
        {{"name", step.name},
         {"set", step.set},
         {"prepare_seconds", step.prepare_seconds},
         {"global_batch_size", step.batch},
         {"samples", step.samples},
         {"samples_per_second", step.rate()},
         {"busy_share", step.busy()},
         {"minutes_per_epoch", step.minutes_per_epoch()},
         {"trials_per_day", step.trials_per_day()},
         {"rounds",
          {{"samples_per_second", step.samples_per_second}, {"busy_share", step.busy_shares}}}});
  }
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string to_table(const FeedingOptions& options, const FeedingResult& result) {
  std::string text = fmt::format(
      "{}, {} CPUs, {}, {} round{}\n{:<37}{:>9}{:>11}{:>8}{:>11}{:>12}{:>10}\n", processor_name(),
      usable_cpus(), result.device, options.rounds, options.rounds == 1 ? "" : "s, medians",
      "feeding", "batch", "samples/s", "busy %", "min/epoch", "trials/day", "made in s");
  for (const FeedingStep& step : result.steps) {
    text +=
        fmt::format("{:<37}{:>9}{:>11.0f}{:>8.1f}{:>11.3f}{:>12.0f}{:>10}\n", step.name, step.batch,
                    step.rate(), 100 * step.busy(), step.minutes_per_epoch(), step.trials_per_day(),
                    step.prepare_seconds > 0 ? fmt::format("{:.1f}", step.prepare_seconds) : "-");
  }
  return text;
}

}  // namespace dlrm::bench
