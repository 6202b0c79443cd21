#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"

#include "infer.h"
#include "list_option.h"
#include "machine_text.h"
#include "serve/trained_model.h"

namespace dlrm::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr double kLargestRate = 1e7;

OrderedJson point_json(const InferPoint& point) {
  return {{"calls", point.calls},
          {"samples_per_second", point.samples_per_second},
          {"p50_ms", point.p50_ms},
          {"p99_ms", point.p99_ms}};
}

std::string rate_text(double rate) {
  return std::isfinite(rate) ? fmt::format("{:.10g}/s", rate) : "max";
}

std::string line(const InferModel& model, const std::string& load, const InferPoint& point) {
  return fmt::format("{:<8}{:>16}{:>14.0f}{:>10.3f}{:>10.3f}\n", model.tables, load,
                     point.samples_per_second, point.p50_ms, point.p99_ms);
}

}  // namespace

std::vector<double> parse_rates(const std::string& text) {
  return parse_words<double>(text, [&](std::string_view word) {
    if (word == "max") return std::numeric_limits<double>::infinity();
    double rate = 0;
    const char* end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, rate);
    if (error != std::errc() || stop != end || !(rate > 0 && rate <= kLargestRate)) {
      throw usage_error("--rates {}: expected 1000,20000,max, numbers above 0 and up to {:.0f}",
                        text, kLargestRate);
    }
    return rate;
  });
}

std::vector<std::string> parse_tables(const std::string& text) {
  return parse_words<std::string>(text, [&](std::string_view word) {
    std::string name(word);
    serve::table_type(name);
    return name;
  });
}

std::string to_json(const InferOptions& options, const InferResult& result) {
  OrderedJson json;
  json["checkpoint"] = result.checkpoint;
  json["step"] = result.step;
  json["processor"] = processor_name();
  json["threads"] = options.threads;
  json["clients"] = options.clients;
  json["batch_wait_us"] = options.batch_wait;
  json["seconds"] = options.seconds;
  json["models"] = OrderedJson::array();
  for (const InferModel& model : result.models) {
    OrderedJson& to = json["models"].emplace_back();
    to["tables"] = model.tables;
    to["table_bytes"] = model.table_bytes;
    to["served_batches"] = model.served_batches;
    to["batches"] = OrderedJson::array();
    for (size_t i = 0; i < options.batches.size(); ++i) {
      OrderedJson& point = to["batches"].emplace_back(point_json(model.batches[i]));
      point["batch"] = options.batches[i];
    }
    to["rates"] = OrderedJson::array();
    for (size_t i = 0; i < options.rates.size(); ++i) {
      OrderedJson& point = to["rates"].emplace_back(point_json(model.rates[i]));
      // JSON has no infinity.
      point["rate"] =
          std::isfinite(options.rates[i]) ? OrderedJson(options.rates[i]) : OrderedJson("max");
    }
  }
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string to_table(const InferOptions& options, const InferResult& result) {
  std::string text = fmt::format("{}, {} thread{}, {} clients, {}\n{:<8}{:>16}{:>14}{:>10}{:>10}\n",
                                 result.checkpoint, options.threads,
                                 options.threads == 1 ? "" : "s", options.clients, processor_name(),
                                 "tables", "load", "samples/s", "p50 ms", "p99 ms");
  for (const InferModel& model : result.models) {
    for (size_t i = 0; i < options.batches.size(); ++i) {
      text += line(model, fmt::format("batch {}", options.batches[i]), model.batches[i]);
    }
    for (size_t i = 0; i < options.rates.size(); ++i) {
      text += line(model, rate_text(options.rates[i]), model.rates[i]);
    }
    text += fmt::format("{:<8}{:>16}{:>14.1f} MiB\n", model.tables, "memory",
                        static_cast<double>(model.table_bytes) / 0x1p20);
  }
  return text;
}

}  // namespace dlrm::bench
