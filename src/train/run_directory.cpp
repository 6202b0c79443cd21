#include "dlrm/train/run_directory.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/core/replace_file.h"

#include "checkpoint_agreement.h"
#include "metrics_file.h"

namespace dlrm {

namespace fs = std::filesystem;

namespace {

/// A JSON number, or null if it is not finite.
std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "null";
}

/// The step of a line of metrics.jsonl. Empty if the line is incomplete or has no step.
std::optional<int64_t> step_of_line(const std::string& line) {
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) {
    return {};
  }
  return object["step"].get<int64_t>();
}

}  // namespace

RunDirectory::RunDirectory(Communicator& comm, const std::string& directory)
    : comm_(comm),
      directory_(directory),
      metrics_(std::make_unique<MetricsFile>(Log(comm.rank()))) {
  agree_on_root(comm, [&] {
    std::error_code error;
    fs::create_directories(directory, error);
    const bool there = !error && fs::is_directory(directory, error);
    if (!there || ::access(directory.c_str(), W_OK | X_OK) != 0) {
      throw usage_error("output.directory: cannot write to {}: {}", directory,
                        error    ? error.message()
                        : !there ? "not a folder"
                                 : std::strerror(errno));
    }
  });
}

RunDirectory::~RunDirectory() = default;

std::string RunDirectory::path(const std::string& name) const { return directory_ + "/" + name; }

void RunDirectory::start(const std::string& config_yaml, const std::string& plan_json) {
  begin(config_yaml, plan_json, {});
}

void RunDirectory::resume(const std::string& config_yaml, const std::string& plan_json,
                          int64_t step) {
  begin(config_yaml, plan_json, step);
}

void RunDirectory::begin(const std::string& config_yaml, const std::string& plan_json,
                         std::optional<int64_t> step) {
  agree_on_root(comm_, [&] {
    for (const char* stale : {"summary.json", "trace.json"}) {
      std::error_code ignored;
      fs::remove(path(stale), ignored);
    }
    for (const char* name : {"config.yaml", "plan.json", "metrics.jsonl", "summary.json"}) {
      remove_interrupted_replacements(path(name));
    }
    replace_file(path("config.yaml"), config_yaml);
    replace_file(path("plan.json"), plan_json);
    truncate_metrics(step);
    metrics_->open(path("metrics.jsonl"));
  });
}

void RunDirectory::attach(const std::string& config_yaml, const std::string& plan_json) {
  agree_on_root(comm_, [&] {
    if (!fs::exists(path("config.yaml"))) replace_file(path("config.yaml"), config_yaml);
    if (!fs::exists(path("plan.json"))) replace_file(path("plan.json"), plan_json);
    metrics_->open(path("metrics.jsonl"));
  });
}

/// Keeps whole lines up to `step`. Without a step, keeps no line.
void RunDirectory::truncate_metrics(std::optional<int64_t> step) {
  FileReplacement kept(path("metrics.jsonl"));
  std::ifstream old;
  if (step && fs::is_regular_file(path("metrics.jsonl"))) old.open(path("metrics.jsonl"));
  std::string line;
  while (std::getline(old, line)) {
    const auto at = step_of_line(line);
    if (at && *at <= *step) kept.write(line + "\n");
  }
  kept.commit();
}

void RunDirectory::log(const StepMetrics& m) {
  metrics_->append(fmt::format(
      "{{\"step\": {}, \"samples\": {}, \"loss\": {}, \"lr\": {}, \"samples_per_second\": {}}}\n",
      m.step, m.samples, number(m.loss, 9), number(m.lr, 9), number(m.samples_per_second, 6)));
}

void RunDirectory::log(int64_t step, const EvalResult& eval) {
  metrics_->append(
      fmt::format("{{\"step\": {}, \"auc\": {}, \"log_loss\": {}, \"accuracy\": {}, "
                  "\"calibration\": {}}}\n",
                  step, eval.auc ? number(*eval.auc, 9) : "null", number(eval.log_loss, 9),
                  number(eval.accuracy, 9), number(eval.calibration, 9)));
}

void RunDirectory::update_evaluation(const RunSummary& summary) {
  if (comm_.rank() != 0) return;
  auto earlier =
      nlohmann::ordered_json::parse(read_file(path("summary.json")).value_or(""), nullptr, false);
  if (!earlier.is_object()) return write_summary(summary);
  earlier["eval"] = nlohmann::ordered_json::parse(to_json(summary))["eval"];
  replace_file(path("summary.json"), earlier.dump(2) + "\n");
}

void RunDirectory::write_summary(const RunSummary& summary) {
  if (comm_.rank() != 0) return;
  try {
    replace_file(path("summary.json"), to_json(summary));
  } catch (const Error& error) {
    lost_summary_ = error.what();
  }
}

std::string RunDirectory::lost() {
  const std::string missing = metrics_->missing();
  if (missing.empty() || lost_summary_.empty()) return missing + lost_summary_;
  return missing + "; " + lost_summary_;
}

}  // namespace dlrm
