#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "dlrm/comm/communicator.h"
#include "dlrm/embedding/cache_counters.h"
#include "dlrm/train/evaluation_history.h"
#include "dlrm/train/evaluation_slices.h"

namespace dlrm {

class MetricsFile;

/// One step's line of metrics.jsonl.
struct StepMetrics {
  int64_t step = 0;     ///< from 1
  int64_t samples = 0;  ///< trained on so far, this step included
  double loss = 0;      ///< of the step's global batch, before its update
  double lr = 0;        ///< of the dense optimizer
  double samples_per_second = 0;
  double epoch = 0;                         ///< epochs trained on so far, this step included
  std::optional<CacheCounters> cache = {};  ///< of rank 0, since the line before
};

/// The lines of metrics.jsonl that a run resumed at `step` keeps: those of earlier steps, and those
/// of `step` that an uninterrupted run has too.
struct KeptLines {
  int64_t step = 0;
  bool metrics = true;
  bool evaluation = true;
  bool test = true;  ///< lines of data.test
};

/// The contents of summary.json. Numbers that are not finite are written as null.
struct RunSummary {
  double samples_per_second = 0;  ///< of the training loop only
  int64_t steps = 0;
  int64_t samples = 0;
  double train_loss = 0;
  std::optional<Evaluation> eval;       ///< the last; {} in the file if there was none
  SlicedResult slices;                  ///< of `eval`
  std::optional<Evaluation> best_eval;  ///< by checkpoint.keep_best; {} if there was none
  std::optional<Evaluation> test;       ///< with data.valid: of data.test, at the end
  SlicedResult test_slices;             ///< of `test`
  int world_size = 1;
  std::string device;  ///< begins with cpu or cuda
  double wall_seconds = 0;
  double step_ms_mean = 0;
  double step_ms_p50 = 0;
  double step_ms_p99 = 0;
  std::map<std::string, double> stages_ms;      ///< mean of each stage per step
  std::map<std::string, double> stages_max_ms;  ///< mean on the rank that takes longest in it
  double data_wait_share = 0;
  double cpu_utilization = 0;
  std::map<std::string, double> memory;       ///< bytes
  std::map<std::string, double> plan;         ///< shards, ranks, balance...
  std::map<std::string, double> cache;        ///< of cached tables, over all ranks; may be empty
  std::map<std::string, double> numbers;      ///< further fields
  std::map<std::string, std::string> labels;  ///< further fields
};

/// The output folder of a run: config.yaml, plan.json, metrics.jsonl, summary.json and further
/// files on request. Rank 0 writes. Calls on other ranks do nothing.
class RunDirectory {
 public:
  /// Creates the folder if needed. Collective: usage_error on every rank if rank 0 cannot write to
  /// it.
  RunDirectory(Communicator& comm, const std::string& directory);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  /// Starts a new run: rewrites config.yaml and plan.json, empties metrics.jsonl, and removes an
  /// earlier run's summary.json and trace.json. Collective, like resume().
  void start(const std::string& config_yaml, const std::string& plan_json);
  /// The same for a resumed run: metrics.jsonl keeps the lines that `kept` describes.
  void resume(const std::string& config_yaml, const std::string& plan_json, const KeptLines& kept);

  /// Starts an evaluation without training: keeps the files of an earlier run and appends to
  /// metrics.jsonl. Collective.
  void attach(const std::string& config_yaml, const std::string& plan_json);

  /// Appends a line without buffering. If that fails, the line is kept and written later, and a
  /// warning says so: see lost().
  void log(const StepMetrics& metrics);
  /// `split`: "valid" or "test".
  void log(const Evaluation& evaluation, double epoch, const char* split);

  /// Replaces summary.json atomically. If that fails, lost() tells it.
  void write_summary(const RunSummary& summary);

  /// What this folder should hold and does not, because it could not be written. Empty if nothing
  /// is missing, and on ranks other than 0.
  std::string lost();

  /// Replaces `eval` in the existing summary, after an evaluation without training. If there is no
  /// summary, writes `summary`.
  void update_evaluation(const RunSummary& summary);

  /// A file of this folder.
  std::string path(const std::string& name) const;

 private:
  void begin(const std::string& config_yaml, const std::string& plan_json,
             const std::optional<KeptLines>& kept);
  void truncate_metrics(const std::optional<KeptLines>& kept);

  Communicator& comm_;
  std::string directory_;
  std::unique_ptr<MetricsFile> metrics_;
  std::string lost_summary_;  // why it could not be written
};

/// The text of summary.json.
std::string to_json(const RunSummary& summary);

}  // namespace dlrm
