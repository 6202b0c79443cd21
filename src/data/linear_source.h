#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "dlrm/data/batch_source.h"

namespace dlrm {

/// The batches of another source, in which the bags of all features occur twice: for the model's
/// tables, and once more for those of its linear part.
class LinearSource final : public BatchSource {
 public:
  explicit LinearSource(std::unique_ptr<BatchSource> source) : source_(std::move(source)) {}

  const BatchSource& source() const { return *source_; }
  const BatchPlan& plan() const override { return source_->plan(); }
  void load(int64_t t, Batch& batch) const override {
    source_->load(t, batch);
    repeat_bags(batch);
  }
  static void repeat_bags(Batch& batch) {
    const size_t ids = batch.ids.size(), bags = batch.offsets.size() - 1;
    batch.ids.resize(2 * ids);
    std::copy_n(batch.ids.begin(), ids, batch.ids.begin() + static_cast<int64_t>(ids));
    if (!batch.id_weights.empty()) {
      batch.id_weights.resize(2 * ids);
      std::copy_n(batch.id_weights.begin(), ids,
                  batch.id_weights.begin() + static_cast<int64_t>(ids));
    }
    batch.offsets.resize(2 * bags + 1);
    for (size_t i = 1; i <= bags; ++i) {
      batch.offsets[bags + i] = batch.offsets[i] + static_cast<int64_t>(ids);
    }
  }
  void will_need(int64_t t) const override { source_->will_need(t); }
  std::string describe() const override { return source_->describe(); }
  FilePreprocessing preprocessing() const override { return source_->preprocessing(); }

 private:
  std::unique_ptr<BatchSource> source_;
};

}  // namespace dlrm
