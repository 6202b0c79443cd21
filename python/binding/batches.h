#pragma once
#include <memory>

#include "dlrm/data/batch_source.h"

namespace dlrm {

/// One rank's parts of the global batches of a dataset, as dlrm-train reads them.
class Batches {
 public:
  /// Reads `config.data.train`.
  Batches(const RunConfig& config, int rank, int world)
      : source_(make_batch_source(config, Split::kTrain, rank, world)) {}

  int64_t per_epoch() const { return source_->plan().batches_per_epoch(); }
  int64_t samples() const { return source_->plan().samples; }
  /// Loads batch t, counted over all epochs.
  void load(int64_t t, Batch& batch) const { source_->load(t, batch); }
  /// Loads batches [first, last) on `workers` threads, at most `depth` ahead of next().
  void start(int64_t first, int64_t last, int workers, int depth) {
    ahead_ = std::make_unique<Prefetcher>(*source_, first, last, workers, depth);
  }
  /// The next batch, valid until the next call; null after the last.
  const Batch* next() { return ahead_->next(); }

 private:
  std::unique_ptr<BatchSource> source_;
  std::unique_ptr<Prefetcher> ahead_;  // Declared last, so it is destroyed first.
};

}  // namespace dlrm
