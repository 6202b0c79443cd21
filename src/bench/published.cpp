#include "published.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"
#include "dlrm/core/file.h"
#include "dlrm/core/printable.h"
#include "dlrm/plan/plan.h"
#include "dlrm/plan/routed_plan.h"

namespace dlrm::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// A text, a number above 0, or whatever Value is.
template <class Value>
Value value_of(const OrderedJson& object, const std::string& path, const std::string& key) {
  try {
    return object.at(key).get<Value>();
  } catch (const OrderedJson::exception&) {
    throw usage_error("{}: {}: missing, or of another type", path, key);
  }
}

double seconds_of(const OrderedJson& root, const std::string& path, const std::string& key) {
  const OrderedJson& seconds = root.contains("seconds") ? root["seconds"] : OrderedJson::object();
  const auto value = value_of<double>(seconds, path + ": seconds", key);
  if (value >= 0 && value < 1) return value;
  throw usage_error("{}: seconds: {}: must be a number from 0 to 1", path, key);
}

PublishedTimes::Point point_of(const OrderedJson& object, const std::string& path) {
  PublishedTimes::Point point;
  point.config = value_of<std::string>(object, path, "config");
  point.ranks = value_of<int>(object, path, "ranks");
  point.ms = value_of<double>(object, path, "ms");
  point.fitted = object.value("fitted", false);
  if (point.ranks < 1 || !(point.ms > 0)) {
    throw usage_error("{}: points: ranks and ms must be above 0", path);
  }
  return point;
}

double percent(double share) { return 100 * share; }

/// The middle of the absolute errors, the lower one of two.
double median(std::vector<double> errors) {
  for (double& error : errors) error = std::abs(error);
  const size_t middle = (errors.size() - 1) / 2;
  std::nth_element(errors.begin(), errors.begin() + static_cast<std::ptrdiff_t>(middle),
                   errors.end());
  return errors[middle];
}

std::string summary(const char* name, const std::vector<double>& errors) {
  if (errors.empty()) return "";
  double most = 0;
  for (const double error : errors) most = std::max(most, std::abs(error));
  return fmt::format("{} {} points: median error {:.0f} %, largest {:.0f} %\n", errors.size(), name,
                     percent(median(errors)), percent(most));
}

}  // namespace

PublishedTimes read_published(const std::string& path) {
  constexpr size_t kLongest = size_t{1} << 20;
  const OrderedJson root = OrderedJson::parse(read_text(path, kLongest), nullptr, false);
  if (!root.is_object()) throw usage_error("{}: must be a JSON object", path);
  PublishedTimes times;
  times.program = printable(value_of<std::string>(root, path, "program"), 200);
  times.source = printable(value_of<std::string>(root, path, "source"), 500);
  times.largest_slice = value_of<double>(root, path, "largest_slice_elements");
  times.costs = {seconds_of(root, path, "id"), seconds_of(root, path, "element"),
                 seconds_of(root, path, "input"), seconds_of(root, path, "model_input")};
  for (const OrderedJson& object : value_of<std::vector<OrderedJson>>(root, path, "points")) {
    times.points.push_back(point_of(object, path));
  }
  if (times.points.empty() || !(times.largest_slice > 0)) {
    throw usage_error("{}: points and largest_slice_elements must not be empty or 0", path);
  }
  return times;
}

PublishedResult compare_published(const PublishedTimes& times, const std::string& machine) {
  PublishedResult result{read_machine(machine), {}};
  PlanOptions options;
  options.ranks_per_node = result.machine.speed.ranks_per_node;
  options.gpu = result.machine.speed.gpu;
  for (const PublishedTimes::Point& point : times.points) {
    RunConfig config = load_config(point.config, {"sharding.machine=" + machine});
    const Plan placed = memory_balanced_plan(config.model, point.ranks, times.largest_slice);
    const auto [plan, mode, why] = make_routed_plan(config, point.ranks, options);
    config.routing.mode = mode;
    result.points.push_back({point,
                             1e3 * simulate_unfused_step(config, placed, options, times.costs).step,
                             1e3 * simulate_step(config, plan, options).step});
  }
  return result;
}

std::string to_table(const PublishedTimes& times, const PublishedResult& result) {
  std::string text =
      fmt::format("{} on {}\npublished: {}\n{:<36}{:>7}{:>14}{:>14}{:>10}{:>9}{:>14}\n",
                  times.program, result.machine.name, times.source, "config", "ranks",
                  "published ms", "predicted ms", "error %", "", "dlrm-train ms");
  std::vector<double> fitted, others;
  for (const PublishedComparison& c : result.points) {
    (c.point.fitted ? fitted : others).push_back(c.error());
    text += fmt::format("{:<36}{:>7}{:>14.3f}{:>14.3f}{:>+10.1f}{:>9}{:>14.3f}\n", c.point.config,
                        c.point.ranks, c.point.ms, c.theirs, percent(c.error()),
                        c.point.fitted ? "fitted" : "", c.ours);
  }
  return text + summary("fitted", fitted) + summary("other", others) +
         "The last column is a prediction for dlrm-train, which has not run on this machine.\n";
}

std::string to_json(const PublishedTimes& times, const PublishedResult& result) {
  OrderedJson json;
  json["predicted"] = true;
  json["program"] = times.program;
  json["machine"] = {{"name", result.machine.name}, {"hash", result.machine.hash}};
  json["points"] = OrderedJson::array();
  for (const PublishedComparison& c : result.points) {
    json["points"].push_back({{"config", c.point.config},
                              {"ranks", c.point.ranks},
                              {"published_ms", c.point.ms},
                              {"predicted_ms", c.theirs},
                              {"error", c.error()},
                              {"fitted", c.point.fitted},
                              {"dlrm_train_ms", c.ours}});
  }
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace dlrm::bench
