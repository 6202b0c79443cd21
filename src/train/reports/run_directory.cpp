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
#include "dlrm/core/utc.h"

#include "metrics_file.h"
#include "train/checkpoint/checkpoint_agreement.h"

namespace dlrm {

namespace fs = std::filesystem;

namespace {

/// A JSON number, or null if it is not finite.
std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "null";
}

std::string number(const std::optional<double>& value, int digits) {
  return value ? number(*value, digits) : "null";
}

/// Whether a line of metrics.jsonl is kept. An incomplete line is not.
bool is_kept(const std::string& line, const KeptLines& kept) {
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) {
    return false;
  }
  if (!kept.test && object.value("split", "") == "test") return false;
  const auto step = object["step"].get<int64_t>();
  if (step != kept.step) return step < kept.step;
  return object.contains("auc") ? kept.evaluation : kept.metrics;
}

/// The time of day as "2026-01-31T12:00:00Z".
std::string now() { return utc_text(std::time(nullptr)); }

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
                          const KeptLines& kept) {
  begin(config_yaml, plan_json, kept);
}

void RunDirectory::begin(const std::string& config_yaml, const std::string& plan_json,
                         const std::optional<KeptLines>& kept) {
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
    truncate_metrics(kept);
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

/// Without `kept`, keeps no line.
void RunDirectory::truncate_metrics(const std::optional<KeptLines>& kept) {
  FileReplacement metrics(path("metrics.jsonl"));
  std::ifstream old;
  if (kept && fs::is_regular_file(path("metrics.jsonl"))) old.open(path("metrics.jsonl"));
  std::string line;
  while (std::getline(old, line)) {
    if (is_kept(line, *kept)) metrics.write(line + "\n");
  }
  metrics.commit();
}

namespace {

std::string text_of(const CacheCounters& cache) {
  return fmt::format(
      ", \"cache\": {{\"hit_rate\": {}, \"misses\": {}, \"fetched_bytes\": {}, "
      "\"written_bytes\": {}, \"place_seconds\": {}, \"fetch_seconds\": {}, \"write_seconds\": {}, "
      "\"exposed_seconds\": {}}}",
      number(cache.hit_rate(), 6), cache.misses, cache.fetched_bytes, cache.written_bytes,
      number(cache.place_seconds, 6), number(cache.fetch_seconds, 6),
      number(cache.write_seconds, 6), number(cache.exposed_seconds, 6));
}

std::string metrics_of(const EvalResult& eval) {
  return fmt::format(
      "\"auc\": {}, \"log_loss\": {}, \"accuracy\": {}, \"calibration\": {}, \"pr_auc\": {}, "
      "\"normalised_entropy\": {}{}",
      number(eval.auc, 9), number(eval.log_loss, 9), number(eval.accuracy, 9),
      number(eval.calibration, 9), number(eval.pr_auc, 9), number(eval.normalised_entropy, 9),
      eval.gauc ? ", \"gauc\": " + number(*eval.gauc, 9) : "");
}

}  // namespace

void RunDirectory::log(const StepMetrics& m) {
  metrics_->append(
      fmt::format("{{\"step\": {}, \"epoch\": {}, \"samples\": {}, \"loss\": {}, \"lr\": {}, "
                  "\"samples_per_second\": {}{}, \"time\": \"{}\"}}\n",
                  m.step, number(m.epoch, 6), m.samples, number(m.loss, 9), number(m.lr, 9),
                  number(m.samples_per_second, 6), m.cache ? text_of(*m.cache) : "", now()));
}

void RunDirectory::log(const Evaluation& evaluation, double epoch, const char* split) {
  std::string tasks;
  for (const auto& [name, result] : evaluation.result.tasks) {
    tasks += fmt::format("{}\"{}\": {{{}, \"samples\": {}}}", tasks.empty() ? "" : ", ", name,
                         metrics_of(result), result.samples);
  }
  if (!tasks.empty()) tasks = fmt::format(", \"tasks\": {{{}}}", tasks);
  metrics_->append(fmt::format(
      "{{\"step\": {}, \"epoch\": {}, \"split\": \"{}\", {}{}, \"time\": \"{}\"}}\n",
      evaluation.step, number(epoch, 6), split, metrics_of(evaluation.result), tasks, now()));
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
