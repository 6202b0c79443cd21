#include "synthetic_source.h"

#include <algorithm>

#include "dlrm/core/error.h"
#include "dlrm/core/random.h"

namespace dlrm {
namespace {

/// The test split has a tenth of the training samples, or one batch if that is more. It has at most
/// as many samples as the training split.
int64_t samples_of_split(const RunConfig& config, Split split) {
  const int64_t train = config.data.synthetic.samples;
  if (split == Split::kTrain) return train;
  return std::min(train, std::max(config.train.global_batch_size, train / 10));
}

}  // namespace

SyntheticSource::SyntheticSource(const RunConfig& config, Split split, int rank, int world)
    : plan_{samples_of_split(config, split), config.train.global_batch_size},
      stream_(split == Split::kTrain ? 0 : 1),
      dense_key_(stream_key(config.data.synthetic.seed, "synthetic/dense")),
      alpha_(config.data.synthetic.alpha),
      dense_width_(config.model.dense_features),
      rank_(rank),
      world_(world),
      weighted_(config.model.weighted()) {
  if (plan_.samples < 1) throw usage_error("data.synthetic.samples must be at least 1");
  const uint64_t seed = config.data.synthetic.seed;
  for (const TaskConfig& task : config.model.tasks) {
    label_keys_.push_back(stream_key(seed, "synthetic/label/" + task.name));
  }
  if (label_keys_.empty()) label_keys_.push_back(stream_key(seed, "synthetic/label"));
  for (const TableConfig& table : config.model.tables) {
    for (const FeatureConfig& feature : table.features) {
      columns_.push_back({PowerLaw(table.rows, alpha_),
                          stream_key(seed, "synthetic/ids/" + feature.name), feature.hotness,
                          feature.weights, stream_key(seed, "synthetic/weights/" + feature.name)});
    }
  }
}

void SyntheticSource::load(int64_t t, Batch& batch) const {
  const Range samples = plan_.start_batch(t, rank_, world_, batch);
  const int64_t b = batch.size();
  const auto first = static_cast<uint64_t>(samples.begin);
  const auto n = static_cast<size_t>(b);

  batch.labels.resize(n * label_keys_.size());
  float* labels = batch.labels.data();
  for (const uint64_t key : label_keys_) {
    draw_uniform(key, stream_, first, b, 2.0f, labels);
    labels += b;
  }
  for (float& label : batch.labels) label = label < 1.0f ? 0.0f : 1.0f;
  batch.dense.resize(n * static_cast<size_t>(dense_width_));
  draw_uniform(dense_key_, stream_, first * static_cast<uint64_t>(dense_width_), b * dense_width_,
               100.0f, batch.dense.data());

  int64_t hotness = 0;
  for (const Column& column : columns_) hotness += column.hotness;
  batch.ids.resize(n * static_cast<size_t>(hotness));
  batch.offsets.resize(columns_.size() * n + 1);
  batch.id_weights.assign(weighted_ ? batch.ids.size() : 0, 1.0f);
  int64_t* ids = batch.ids.data();
  int64_t* offsets = batch.offsets.data();
  int64_t next = 0;
  *offsets++ = 0;
  for (const Column& column : columns_) {
    const int64_t count = b * column.hotness;
    draw_ids(column.law, column.key, stream_, first * static_cast<uint64_t>(column.hotness), count,
             ids);
    if (column.weighted) {
      draw_uniform(column.weight_key, stream_, first * static_cast<uint64_t>(column.hotness), count,
                   1.0f, batch.id_weights.data() + (ids - batch.ids.data()));
    }
    ids += count;
    for (int64_t i = 0; i < b; ++i) *offsets++ = next += column.hotness;
  }
}

std::string SyntheticSource::describe() const {
  return fmt::format("synthetic: {} samples, alpha {}", plan_.samples, alpha_);
}

}  // namespace dlrm
