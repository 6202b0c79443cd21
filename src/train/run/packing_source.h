#pragma once
#include <memory>
#include <string>
#include <utility>

#include "dlrm/data/batch_source.h"
#include "dlrm/train/local_bags.h"

namespace dlrm {

/// The batches of another source. The thread that loads one also packs its ids, if devices exchange
/// ids. Otherwise pack() does nothing. Ids that stay in `batch` stay packed.
class PackingSource final : public BatchSource {
 public:
  PackingSource(const BatchSource& source, const ShardedEmbeddings& embeddings)
      : source_(source), embeddings_(embeddings) {}

  const BatchPlan& plan() const override { return source_.plan(); }
  void load(int64_t t, Batch& batch) const override {
    auto packed = std::static_pointer_cast<PackedIds>(std::move(batch.packed));
    const int64_t before = batch.content;
    source_.load(t, batch);
    if (batch.content == 0 || batch.content != before) {
      embeddings_.pack(bags_of(batch), packed);
    }
    batch.packed = std::move(packed);
  }
  void will_need(int64_t t) const override { source_.will_need(t); }
  std::string describe() const override { return source_.describe(); }
  FilePreprocessing preprocessing() const override { return source_.preprocessing(); }

 private:
  const BatchSource& source_;
  const ShardedEmbeddings& embeddings_;
};

}  // namespace dlrm
