#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "dlrm/config/run_config.h"
#include "dlrm/data/batch.h"
#include "dlrm/encode/preprocessing.h"

namespace dlrm {

/// How samples are cut into global batches: epoch e holds ⌈samples/B⌉ batches; no batch spans
/// epochs.
struct BatchPlan {
  int64_t samples = 0;
  int64_t batch_size = 0;

  int64_t batches_per_epoch() const { return (samples + batch_size - 1) / batch_size; }
  int64_t epoch_of(int64_t t) const { return t / batches_per_epoch(); }
  /// Samples [begin, end) of the epoch's order that batch t holds.
  Range samples_of(int64_t t) const;
  /// Makes `batch` this rank's part of batch t, still without values. Returns the part's samples in
  /// the epoch's order.
  Range start_batch(int64_t t, int rank, int world, Batch& batch) const;
};

/// Loads the local part of any global batch. Thread-safe: several workers load at once.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual const BatchPlan& plan() const = 0;
  /// Fills `batch`, whose vectors are reused. Bad values (exit 2), with file, record, feature and
  /// value, and lost files (exit 3) are errors.
  virtual void load(int64_t t, Batch& batch) const = 0;
  /// Hints that batch t will be loaded soon.
  virtual void will_need(int64_t) const {}
  /// A description for the log: "train.h5: 1000000 samples".
  virtual std::string describe() const = 0;
  /// How the samples were made of records (Dataset::preprocessing()). The bytes stay.
  virtual FilePreprocessing preprocessing() const { return {}; }
};

enum class Split : uint8_t { kTrain, kValid, kTest };

/// Makes the source that the config selects. Only the train split is shuffled. The result is
/// null if there is no data of the split. hdf5, criteo and parquet read data.train, data.valid or
/// data.test. synthetic generates samples; the test split has other samples of the same
/// distribution. replay gives batch 0 of the training source for every t. That source is hdf5 if
/// data.train is set, otherwise synthetic. `same_data`: a source of this split with another batch
/// size, which is not used any more. Text that it has indexed is not read again.
std::unique_ptr<BatchSource> make_batch_source(const RunConfig& config, Split split, int rank,
                                               int world, const BatchSource* same_data = nullptr);

/// Loads batches first, first+1, ... on worker threads, a bounded number ahead.
class Prefetcher {
 public:
  /// Loads batches [first, last) on `workers` threads, at most `depth` ahead of the caller. With no
  /// workers next() loads.
  Prefetcher(const BatchSource& source, int64_t first, int64_t last, int workers, int depth);
  ~Prefetcher();
  /// Returns the next batch in order, or null after the last. Blocks until it is loaded. Throws the
  /// error of the worker that loaded it. The batch is valid until the next call.
  const Batch* next();
  /// Seconds for which next() has blocked.
  double wait_seconds() const;

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrm
