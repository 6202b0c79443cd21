#include "dlrm/train/evaluation_history.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

using Json = nlohmann::ordered_json;

/// The metric as a value of which more is better.
std::optional<double> merit(BestMetric metric, const EvalResult& result) {
  switch (metric) {
    case BestMetric::kNone:
    case BestMetric::kAuc:
      return result.auc;
    case BestMetric::kPrAuc:
      return result.pr_auc;
    case BestMetric::kGauc:
      return result.gauc;
    case BestMetric::kLogLoss:
      break;
  }
  if (!std::isfinite(result.log_loss)) return std::nullopt;
  return -result.log_loss;
}

[[noreturn]] void refuse() { throw run_error("the checkpoint's evaluations are damaged"); }

/// A number of steps, samples or evaluations.
int64_t count_of(const Json& value) {
  constexpr int64_t kMost = int64_t{1} << 53;
  const int64_t count = value.is_number_integer() ? value.get<int64_t>() : -1;
  if (count < 0 || count > kMost) refuse();
  return count;
}

double number_of(const Json& value) { return value.is_null() ? std::nan("") : value.get<double>(); }

Json optional(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

/// No value if there is no such key: checkpoints of earlier versions lack some.
std::optional<double> optional_of(const Json& object, const char* key) {
  if (!object.contains(key) || object.at(key).is_null()) return std::nullopt;
  return object.at(key).get<double>();
}

/// JSON has no infinities or NaNs. They are written as null.
Json to_json(const EvalResult& result) {
  Json object = {{"samples", result.samples},
                 {"auc", optional(result.auc)},
                 {"pr_auc", optional(result.pr_auc)},
                 {"normalised_entropy", optional(result.normalised_entropy)},
                 {"gauc", optional(result.gauc)},
                 {"log_loss", result.log_loss},
                 {"accuracy", result.accuracy},
                 {"calibration", result.calibration}};
  for (const TaskResult& task : result.tasks) object["tasks"][task.name] = to_json(task.result);
  return object;
}

Json to_json(const std::optional<Evaluation>& evaluation) {
  if (!evaluation) return nullptr;
  Json object = to_json(evaluation->result);
  object["step"] = evaluation->step;
  return object;
}

EvalResult result_from(const Json& object) {
  EvalResult result;
  result.samples = count_of(object.at("samples"));
  result.auc = optional_of(object, "auc");
  result.pr_auc = optional_of(object, "pr_auc");
  result.normalised_entropy = optional_of(object, "normalised_entropy");
  result.gauc = optional_of(object, "gauc");
  result.log_loss = number_of(object.at("log_loss"));
  result.accuracy = number_of(object.at("accuracy"));
  result.calibration = number_of(object.at("calibration"));
  if (!object.contains("tasks")) return result;
  for (const auto& [name, task] : object.at("tasks").items()) {
    result.tasks.push_back({name, result_from(task)});
  }
  return result;
}

std::optional<Evaluation> from_json(const Json& object) {
  if (object.is_null()) return std::nullopt;
  Evaluation evaluation;
  evaluation.step = count_of(object.at("step"));
  evaluation.result = result_from(object);
  return evaluation;
}

}  // namespace

bool EvaluationHistory::add(const Evaluation& evaluation) {
  last_ = evaluation;
  const auto now = merit(metric_, evaluation.result);
  const auto before = best_ ? merit(metric_, best_->result) : std::nullopt;
  if (!now || (before && *now <= *before)) {
    ++since_best_;
    return false;
  }
  best_ = evaluation;
  since_best_ = 0;
  return true;
}

std::string EvaluationHistory::text() const {
  return Json{{"last", to_json(last_)}, {"best", to_json(best_)}, {"since_best", since_best_}}
      .dump();
}

void EvaluationHistory::restore(const std::string& text) {
  EvaluationHistory restored(metric_);
  if (!text.empty()) {
    try {
      const Json object = Json::parse(text);
      restored.last_ = from_json(object.at("last"));
      restored.best_ = from_json(object.at("best"));
      restored.since_best_ = count_of(object.at("since_best"));
    } catch (const Json::exception&) {
      refuse();
    }
  }
  *this = restored;
}

}  // namespace dlrm
