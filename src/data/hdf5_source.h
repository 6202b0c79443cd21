#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dlrm/data/batch_source.h"
#include "dlrm/data/dataset_file.h"

#include "block_verifier.h"
#include "epoch_order.h"
#include "recent_numbers.h"
#include "scratch_pool.h"

namespace dlrm {

/// How the samples of a dataset are read.
struct Hdf5SourceOptions {
  std::vector<std::string> paths;  ///< files and folders, at least one
  int64_t batch_size = 0;
  bool shuffle = false;
  uint64_t seed = 1;
  InvalidId invalid_id = InvalidId::kError;
  bool verify = true;  ///< blocks, when they are first read
  int rank = 0;
  int world = 1;
};

/// Batches of a dataset: gathers this rank's samples from the mapped columns, feature by feature.
/// The config's features are found by name. Other features of the file are ignored.
class Hdf5Source : public BatchSource {
 public:
  Hdf5Source(const ModelConfig& model, const Hdf5SourceOptions& options);

  const BatchPlan& plan() const override { return plan_; }
  void load(int64_t t, Batch& batch) const override;
  void will_need(int64_t t) const override;
  std::string describe() const override;
  FilePreprocessing preprocessing() const override { return preprocessing_; }

 private:
  /// One feature of the config, with its columns in every file.
  struct Column {
    std::string name;
    int64_t rows = 0;     // ids must be below it
    int64_t hotness = 0;  // 0: bags are given by offsets
    IdType type = IdType::kInt32;
    std::vector<const std::byte*> ids;
    std::vector<const std::byte*> offsets;
    std::vector<int64_t> counts;            // ids in each file
    std::vector<const std::byte*> weights;  // of the ids; empty if the config asks for none
  };
  using Place = SamplePlace;
  struct Scratch {
    std::vector<int64_t> samples;
    std::vector<Place> places;
    std::vector<bool> files;  // that hold any of them
  };

  void add_column(const TableConfig& table, const FeatureConfig& feature);
  std::vector<std::string> names_in_file() const;
  BlockVerifier make_verifier(const ModelConfig& model) const;
  void find_places(const Batch& batch, Range positions, Scratch& scratch) const;
  void gather(const std::vector<Place>& places, Batch& batch) const;
  void check_whole(const Scratch& scratch) const;
  void gather_dense(const std::vector<Place>& places, Batch& batch) const;
  void gather_labels(const std::vector<Place>& places, Batch& batch) const;
  template <class Label>
  void gather_labels_as(const std::vector<Place>& places, Batch& batch) const;
  [[noreturn]] void report_label(const std::vector<Place>& places, const Batch& batch) const;
  void gather_weights(const std::vector<Place>& places, Batch& batch) const;
  void gather_offsets(const std::vector<Place>& places, Batch& batch) const;
  void gather_ids(const std::vector<Place>& places, Batch& batch) const;
  template <class Id>
  bool gather_feature(const Column& column, const std::vector<Place>& places, size_t feature,
                      Batch& batch) const;
  void gather_id_weights(const std::vector<Place>& places, Batch& batch) const;
  void drop_invalid(Batch& batch) const;
  [[noreturn]] void report_invalid(const std::vector<Place>& places, const Batch& batch) const;
  [[noreturn]] void report_bags(const Column& column, const Place& place) const;
  std::string record(const Place& place) const;
  void advise(int64_t epoch, int64_t window) const;
  void advise_samples(Range samples) const;

  Dataset dataset_;
  Hdf5SourceOptions options_;
  BatchPlan plan_;
  EpochOrder order_;
  BlockVerifier verifier_;
  std::vector<Column> columns_;
  std::vector<std::string> tasks_;                          // one for each of several labels
  std::vector<const std::byte*> labels_, weights_, dense_;  // of each file
  int64_t dense_width_ = 0;
  FilePreprocessing preprocessing_;
  mutable ScratchPool<Scratch> scratch_;
  mutable std::mutex mutex_;       // of advised_
  mutable RecentNumbers advised_;  // windows, counted over epochs
};

}  // namespace dlrm
