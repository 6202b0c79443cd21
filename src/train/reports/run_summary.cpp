#include <cmath>

#include <nlohmann/json.hpp>

#include "dlrm/train/run_directory.h"

namespace dlrm {

namespace {

using Json = nlohmann::ordered_json;

/// A JSON number, or null if it is not finite. Counts and bytes are stored as doubles, so whole
/// numbers are written without a fraction.
Json number(double value) {
  if (std::floor(value) == value && std::fabs(value) < 0x1p53) return static_cast<int64_t>(value);
  return value;
}

Json numbers(const std::map<std::string, double>& values) {
  Json object = Json::object();
  for (const auto& [name, value] : values) object[name] = number(value);
  return object;
}

Json optional(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

void add(const EvalResult& eval, Json& object) {
  object["auc"] = optional(eval.auc);
  object["pr_auc"] = optional(eval.pr_auc);
  object["normalised_entropy"] = optional(eval.normalised_entropy);
  if (eval.gauc) object["gauc"] = *eval.gauc;
  object["log_loss"] = number(eval.log_loss);
  object["accuracy"] = number(eval.accuracy);
  object["calibration"] = number(eval.calibration);
  object["samples"] = eval.samples;
  for (const TaskResult& task : eval.tasks) add(task.result, object["tasks"][task.name]);
}

Json to_json(const std::optional<Evaluation>& evaluation) {
  Json object = Json::object();
  if (!evaluation) return object;
  object["step"] = evaluation->step;
  add(evaluation->result, object);
  return object;
}

Json to_json(const SlicedResult& sliced) {
  Json slices = Json::array();
  for (const EvalSlice& slice : sliced.slices) {
    Json object;
    object["id"] = slice.id ? Json(*slice.id) : Json(nullptr);
    if (slice.value) object["value"] = *slice.value;
    add(slice.result, object);
    slices.push_back(std::move(object));
  }
  return {{"feature", sliced.feature}, {"slices", slices}, {"left_out", sliced.left_out}};
}

}  // namespace

std::string to_json(const RunSummary& summary) {
  Json object;
  object["samples_per_second"] = number(summary.samples_per_second);
  object["steps"] = summary.steps;
  object["samples"] = summary.samples;
  object["train_loss"] = number(summary.train_loss);
  object["eval"] = to_json(summary.eval);
  if (!summary.slices.feature.empty()) object["eval"]["by_id"] = to_json(summary.slices);
  object["best_eval"] = to_json(summary.best_eval);
  if (summary.test) object["test"] = to_json(summary.test);
  if (!summary.test_slices.feature.empty()) object["test"]["by_id"] = to_json(summary.test_slices);
  object["world_size"] = summary.world_size;
  object["device"] = summary.device;
  object["wall_seconds"] = number(summary.wall_seconds);
  object["step_ms"] = {{"mean", number(summary.step_ms_mean)},
                       {"p50", number(summary.step_ms_p50)},
                       {"p99", number(summary.step_ms_p99)}};
  object["stages_ms"] = numbers(summary.stages_ms);
  object["stages_max_ms"] = numbers(summary.stages_max_ms);
  object["data_wait_share"] = number(summary.data_wait_share);
  object["cpu_utilization"] = number(summary.cpu_utilization);
  object["memory"] = numbers(summary.memory);
  object["plan"] = numbers(summary.plan);
  if (!summary.cache.empty()) object["cache"] = numbers(summary.cache);
  for (const auto& [name, value] : summary.numbers) object[name] = number(value);
  for (const auto& [name, value] : summary.labels) object[name] = value;
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dlrm
