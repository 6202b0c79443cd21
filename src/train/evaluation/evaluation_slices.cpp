#include "dlrm/train/evaluation_slices.h"

#include <algorithm>
#include <unordered_map>

#include "dlrm/core/error.h"
#include "dlrm/encode/preprocessing.h"

namespace dlrm {
namespace {

struct Count {
  int64_t id = 0;
  int64_t samples = 0;
};

/// The counts of all ranks, added up by id, on rank 0.
std::vector<Count> all_counts(Communicator& comm, View<const int64_t> ids) {
  std::unordered_map<int64_t, int64_t> counts;
  for (const int64_t id : ids) ++counts[id];
  std::vector<Count> mine;
  for (const auto& [id, samples] : counts) mine.push_back({id, samples});
  const std::vector<int64_t> sizes = comm.allgather<int64_t>(std::ssize(mine));
  const std::vector<Count> all = comm.gatherv<Count>(View<const Count>(mine), sizes);
  counts.clear();
  for (const Count& count : all) counts[count.id] += count.samples;
  std::vector<Count> sum;
  for (const auto& [id, samples] : counts) sum.push_back({id, samples});
  return sum;
}

}  // namespace

void set_values(SlicedResult& sliced, std::string_view preprocessing) {
  if (preprocessing.empty()) return;
  std::vector<int64_t> ids;
  for (const EvalSlice& slice : sliced.slices) ids.push_back(slice.id.value_or(0));
  const auto values =
      values_of_ids(preprocessing, "the data's /preprocessing", sliced.feature, ids);
  for (size_t i = 0; i < ids.size(); ++i) sliced.slices[i].value = values[i];
}

EvaluationSlices::EvaluationSlices(const ModelConfig& model, const std::string& feature)
    : ids_(model, feature) {
  result_.feature = feature;
}

void EvaluationSlices::finish(Communicator& comm, View<const float> probabilities,
                              const Targets& targets, const TaskMetrics& metrics) {
  const View<const int64_t> ids = ids_.ids();
  DLRM_CHECK(ids.size() * metrics.labels() == targets.size() &&
             targets.size() == probabilities.size());
  std::vector<Count> counts = all_counts(comm, ids);
  const auto shown = std::min<int64_t>(std::ssize(counts), kMost);
  std::partial_sort(counts.begin(), counts.begin() + shown, counts.end(),
                    [](const Count& a, const Count& b) {
                      return a.samples > b.samples || (a.samples == b.samples && a.id < b.id);
                    });
  int64_t sizes[] = {shown, std::ssize(counts) - shown};
  comm.broadcast(sizes, sizeof(sizes), 0);
  counts.resize(static_cast<size_t>(sizes[0]));
  comm.broadcast(counts.data(), sizes[0] * static_cast<int64_t>(sizeof(Count)), 0);
  result_.left_out = sizes[1];
  std::vector<float> p;
  TargetList chosen;
  for (const Count& count : counts) {
    p.clear();
    chosen = {};
    for (size_t k = 0; k < probabilities.size(); ++k) {
      const size_t i = k % ids.size();  // a sample, of each label in turn
      if (ids[i] != count.id) continue;
      p.push_back(probabilities[k]);
      chosen.labels.push_back(targets.labels[k]);
      if (targets.weighted() && k < ids.size()) chosen.weights.push_back(targets.weights[i]);
    }
    const EvalResult result = metrics.evaluate(comm, p, chosen.view());
    result_.slices.push_back(
        {count.id == SampleIds::kNone ? std::nullopt : std::optional(count.id), result});
  }
}

}  // namespace dlrm
