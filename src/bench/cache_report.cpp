#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"

#include "cache.h"
#include "list_option.h"
#include "machine_text.h"

namespace dlrm::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

double parse_share(const std::string& all, std::string_view text) {
  double share = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc{} || end != text.data() + text.size() || !(share > 0 && share <= 100)) {
    throw usage_error("--shares {}: must be 1..10 or 10,75: percents above 0, at most 100", all);
  }
  return share;
}

/// The seconds of a timed second in which rows were fetched, and in which steps waited for them.
double share_of(double seconds, const CachePoint& point) { return seconds / point.speed.seconds; }

OrderedJson point_json(const CachePoint& point) {
  const auto steps = static_cast<double>(point.speed.steps);
  OrderedJson json;
  json["policy"] = point.policy.empty() ? "resident" : point.policy;
  json["share"] = point.share;
  json["fast_bytes"] = point.fast_bytes;
  json["samples_per_second"] = point.speed.samples_per_second();
  json["resident_samples_per_second"] = point.resident.samples_per_second();
  json["ratio"] = point.ratio();
  json["limit"] = point.limit;
  if (point.cpu_limit > 0) json["cpu_limit"] = point.cpu_limit;
  json["seconds"] = point.speed.seconds;
  json["cpu_seconds"] = point.speed.cpu_seconds;
  json["steps"] = point.speed.steps;
  json["hit_rate"] = point.cache.hit_rate();
  json["rows_per_step"] = static_cast<double>(point.cache.rows) / steps;
  json["misses_per_step"] = static_cast<double>(point.cache.misses) / steps;
  json["reads_per_step"] = static_cast<double>(point.cache.reads) / steps;
  json["fetched_bytes"] = point.cache.fetched_bytes;
  json["written_bytes"] = point.cache.written_bytes;
  json["place_share"] = share_of(point.cache.place_seconds, point);
  json["fetch_share"] = share_of(point.cache.fetch_seconds, point);
  json["write_share"] = share_of(point.cache.write_seconds, point);
  json["exposed_share"] = share_of(point.cache.exposed_seconds, point);
  return json;
}

}  // namespace

std::vector<double> parse_shares(const std::string& text) {
  return parse_list<double>(
      "--shares", text, [&](std::string_view word) { return parse_share(text, word); },
      [](double share) { return share + 1; });
}

std::string to_json(const CacheOptions& options, const CacheResult& result) {
  OrderedJson json;
  json["config"] = options.config_path;
  json["processor"] = processor_name();
  json["threads"] = result.threads;
  json["chain"] = result.chain;
  json["part"] = options.whole_step ? "step" : "tables";
  json["window"] = options.config.batches_ahead() + 1;
  json["table_bytes"] = result.table_bytes;
  json["ssd"] = {{"rows_read_per_second", result.ssd.rows_read},
                 {"cpu_us_per_row_read", 1e6 * result.ssd.read_cpu_seconds},
                 {"rows_written_per_second", result.ssd.rows_written},
                 {"cpu_us_per_row_written", 1e6 * result.ssd.write_cpu_seconds}};
  json["accesses"] = {{"entries", result.accesses.entries},
                      {"counted", result.accesses.accesses},
                      {"fractions", result.accesses.fractions},
                      {"shares", result.accesses.shares}};
  json["points"] = OrderedJson::array();
  for (const CachePoint& point : result.points) json["points"].push_back(point_json(point));
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string to_table(const CacheOptions& options, const CacheResult& result) {
  std::string text = fmt::format(
      "{}, {} of tables of {:.2f} GiB, {} thread{}, {}\n\naccesses by the hottest entries of {}:\n",
      result.chain, options.whole_step ? "whole steps" : "lookups and updates",
      result.table_bytes / 0x1p30, result.threads, result.threads == 1 ? "" : "s", processor_name(),
      result.accesses.entries);
  for (size_t i = 0; i < result.accesses.fractions.size(); ++i) {
    text += fmt::format("{:>12.4f} %{:>10.2f} %\n", 100 * result.accesses.fractions[i],
                        100 * result.accesses.shares[i]);
  }
  if (result.ssd.rows_read > 0) {
    text += fmt::format(
        "\nthe SSD reads {:.0f} random rows a second, with {:.1f} us of a core for each, and "
        "writes {:.0f}, with {:.2f} us\n",
        result.ssd.rows_read, 1e6 * result.ssd.read_cpu_seconds, result.ssd.rows_written,
        1e6 * result.ssd.write_cpu_seconds);
  }
  text += fmt::format("\n{:<12}{:>8}{:>10}{:>9}{:>12}{:>8}{:>8}{:>8}{:>14}{:>9}{:>9}{:>9}{:>10}\n",
                      "policy", "fast %", "GiB", "hits %", "samples/s", "ratio", "SSD", "cores",
                      "misses/step", "place %", "fetch %", "write %", "exposed %");
  for (const CachePoint& point : result.points) {
    text += fmt::format(
        "{:<12}{:>8.4g}{:>10.2f}{:>9.2f}{:>12.0f}{:>8.3f}{:>8.3f}{:>8}{:>14.1f}{:>9.1f}{:>9.1f}{:>"
        "9.1f}"
        "{:>10.2f}\n",
        point.policy.empty() ? "resident" : point.policy, point.share, point.fast_bytes / 0x1p30,
        100 * point.cache.hit_rate(), point.speed.samples_per_second(), point.ratio(), point.limit,
        point.cpu_limit > 0 ? fmt::format("{:.3f}", point.cpu_limit) : "",
        static_cast<double>(point.cache.misses) / static_cast<double>(point.speed.steps),
        100 * share_of(point.cache.place_seconds, point),
        100 * share_of(point.cache.fetch_seconds, point),
        100 * share_of(point.cache.write_seconds, point),
        100 * share_of(point.cache.exposed_seconds, point));
  }
  return text;
}

}  // namespace dlrm::bench
