#include "feeding.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "dlrm/config/run_config.h"
#include "dlrm/core/cpus.h"
#include "dlrm/core/error.h"
#include "dlrm/core/file.h"

#include "child_program.h"

namespace dlrm::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// A folder that is removed with the object, unless the user has named it.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& given) : path_(given), temporary_(given.empty()) {
    if (temporary_) {
      path_ = (fs::temp_directory_path() / "dlrm-feeding-XXXXXX").string();
      if (!mkdtemp(path_.data())) throw run_error("{}: cannot create", path_);
    } else {
      make_folders(path_);
    }
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (temporary_) fs::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  bool temporary_;
};

class Feeding {
 public:
  Feeding(const FeedingOptions& options, const std::string& programs)
      : options_(options), programs_(programs), folder_(options.folder) {
    std::set<std::string> groups;
    for (const TableConfig& table : load_config(options.config_path, with_text()).model.tables) {
      groups.insert(table.group);
    }
    for (const std::string& group : groups) {
      common_.push_back(fmt::format("model.tables.{}.rows={}", group, options.rows));
    }
    for (const char* none : {"data.test=", "eval.at_end=false", "checkpoint.at_end=false",
                             "checkpoint.every_steps=0", "train.epochs=1"}) {
      common_.emplace_back(none);
    }
  }

  FeedingResult run() {
    FeedingResult result{"", steps()};
    for (int round = 0; round < options_.rounds; ++round) {
      for (FeedingStep& step : result.steps) {
        if (round == 0) step.prepare_seconds = prepare(step);
        train(step, result.device);
      }
    }
    return result;
  }

 private:
  std::vector<std::string> with_text() const {
    std::vector<std::string> set = options_.set;
    for (const std::string& key : {std::string("data.source=criteo"), "data.train=" + options_.data,
                                   std::string("data.shuffle=false")}) {
      set.push_back(key);
    }
    return set;
  }

  std::vector<FeedingStep> steps() const {
    const std::string text = "data.source=criteo", data = "data.train=" + options_.data;
    const std::string dataset = "data.train=" + converted(), order = "data.shuffle=false";
    const std::string workers =
        fmt::format("data.workers={}", options_.workers > 0 ? options_.workers : usable_cpus());
    const std::string batch = "train.global_batch_size=auto", rates = "train.lr_scaling=sqrt";
    return {{"text, parsed in the training thread", {text, data, order, "data.workers=0"}},
            {"text, parsed by workers", {text, data, order, workers}},
            {"binary dataset", {"data.source=hdf5", dataset, order, workers}},
            {"largest batch", {"data.source=hdf5", dataset, order, workers, batch, rates}},
            {"shuffled while reading",
             {"data.source=hdf5", dataset, "data.shuffle=true", workers, batch, rates}},
            {"shuffled before",
             {"data.source=hdf5", "data.train=" + shuffled(), order, workers, batch, rates}}};
  }

  std::string converted() const { return folder_ / "converted.h5"; }
  std::string shuffled() const { return folder_ / "shuffled.h5"; }

  /// Makes the dataset of a step if no step before has. Returns the seconds that it took.
  double prepare(const FeedingStep& step) {
    const auto uses = [&](const std::string& dataset) {
      return std::find(step.set.begin(), step.set.end(), "data.train=" + dataset) != step.set.end();
    };
    std::vector<std::string> command;
    if (uses(converted()) && !fs::exists(converted())) {
      command = {"criteo",   options_.data, "--max-rows", std::to_string(options_.rows),
                 "--output", converted()};
    } else if (uses(shuffled())) {
      command = {"shuffle", converted(), "--output", shuffled()};
    } else {
      return 0;
    }
    const auto begin = std::chrono::steady_clock::now();
    run_program(programs_ + "/dlrm-data", command);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  void train(FeedingStep& step, std::string& device) {
    const std::string folder = folder_ / "run";
    std::vector<std::string> words{options_.config_path, "--overwrite"};
    const auto set = [&](const std::vector<std::string>& keys) {
      for (const std::string& key : keys) words.insert(words.end(), {"--set", key});
    };
    set(options_.set);
    set(common_);
    set(step.set);
    set({"output.directory=" + folder, "checkpoint.directory=" + folder + "/checkpoints"});
    run_program(programs_ + "/dlrm-train", words);
    const Json summary = Json::parse(read_text(folder + "/summary.json", 1 << 24));
    const double waited = summary.at("data_wait_share");
    step.samples_per_second.push_back(summary.at("samples_per_second"));
    step.busy_shares.push_back(summary.value("gpu_busy_share", 1 - waited));
    step.samples = summary.at("samples");
    step.batch = load_config(folder + "/config.yaml").train.global_batch_size;
    device = summary.at("device");
  }

  const FeedingOptions& options_;
  const std::string programs_;
  const WorkFolder folder_;
  std::vector<std::string> common_;  ///< keys of every run
};

}  // namespace

double FeedingStep::rate() const { return median(samples_per_second); }
double FeedingStep::busy() const { return median(busy_shares); }

FeedingResult run_feeding(const FeedingOptions& options, const std::string& programs) {
  return Feeding(options, programs).run();
}

}  // namespace dlrm::bench
