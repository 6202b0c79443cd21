#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/config/run_config.h"
#include "dlrm/data/batch.h"
#include "dlrm/metrics/metrics.h"
#include "dlrm/train/sample_ids.h"
#include "dlrm/train/task_metrics.h"

namespace dlrm {

/// Metrics of the samples that have one id of a feature.
struct EvalSlice {
  std::optional<int64_t> id;  ///< none: the samples without an id
  EvalResult result;
  std::optional<std::string> value = {};  ///< that the id stands for, if the data says so
};

/// The slices of an evaluation.
struct SlicedResult {
  std::string feature;            ///< empty: there are none
  std::vector<EvalSlice> slices;  ///< those with most samples, the largest first
  int64_t left_out = 0;           ///< slices with fewer samples
};

/// Sets the values that the ids stand for (BatchSource::preprocessing()). A usage_error says what
/// is wrong with the preprocessing.
void set_values(SlicedResult& sliced, std::string_view preprocessing);

/// Divides an evaluation by the ids of one feature (eval.slice_by). Slices, counts and AUC are the
/// same for any number of ranks, and means up to rounding.
class EvaluationSlices {
 public:
  /// Of the slices that the result has, at most.
  static constexpr int64_t kMost = 20;

  EvaluationSlices(const ModelConfig& model, const std::string& feature);

  /// Notes the ids of a batch. Batches come in the order of their predictions.
  void see(const Batch& batch) { ids_.see(batch); }
  /// Computes the metrics of each slice from the predictions of all batches. Collective.
  /// They are as for `metrics`.
  void finish(Communicator& comm, View<const float> probabilities, const Targets& targets,
              const TaskMetrics& metrics = {});
  const SlicedResult& result() const { return result_; }

 private:
  SampleIds ids_;
  SlicedResult result_;
};

}  // namespace dlrm
