#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dlrm/data/batch_source.h"

#include "epoch_order.h"
#include "sample_groups.h"
#include "scratch_pool.h"

namespace dlrm {

/// Batches of Parquet files, encoded as `dlrm-data import` does with frozen dictionaries. The
/// shuffled order is that of datasets (EpochOrder), with blocks of one row group, or of several
/// that are small.
class ParquetSource : public BatchSource {
 public:
  /// `training`: the source of the training data, which alone is shuffled.
  ParquetSource(const RunConfig& config, const std::vector<std::string>& paths, bool training,
                int rank, int world);

  const BatchPlan& plan() const override { return plan_; }
  void load(int64_t t, Batch& batch) const override;
  void will_need(int64_t t) const override;
  std::string describe() const override;
  FilePreprocessing preprocessing() const override {
    return {config_.data.schema, groups_->header().preprocessing};
  }

 private:
  /// A feature of the config.
  struct Column {
    std::string name;
    size_t place;  // among those of the schema
    int64_t rows;  // of its table
    bool wide;     // ids of 64 bits
  };
  struct Place {
    size_t group;  // in Scratch
    int64_t sample;
  };
  struct Scratch {
    std::vector<int64_t> samples, numbers;  // of groups, in order
    std::vector<Place> places;
    std::vector<std::shared_ptr<const SampleGroup>> groups;
  };

  void add_column(const TableConfig& table, const FeatureConfig& feature);
  std::vector<int64_t> block_starts() const;
  size_t group_of(int64_t sample) const;
  std::vector<int64_t> groups_of(int64_t epoch, int64_t window) const;
  void find_places(const Batch& batch, Range positions, Scratch& scratch) const;
  void gather(const Scratch& scratch, Batch& batch) const;
  template <class Id>
  void gather_ids(const Scratch& scratch, size_t feature, Batch& batch) const;
  [[noreturn]] void refuse(const Scratch& scratch, size_t feature, size_t sample, int64_t id) const;

  RunConfig config_;
  std::vector<std::string> paths_;
  int rank_, world_;
  std::unique_ptr<SampleGroups> groups_;
  std::vector<int64_t> starts_{0};  // [groups + 1] samples before each
  BatchPlan plan_;
  int64_t epochs_ = 1;  // of the run; an evaluation has one
  std::unique_ptr<EpochOrder> order_;
  std::vector<Column> columns_;
  mutable ScratchPool<Scratch> scratch_;
};

}  // namespace dlrm
