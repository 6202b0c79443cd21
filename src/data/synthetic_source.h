#pragma once
#include <string>
#include <vector>

#include "dlrm/data/batch_source.h"
#include "dlrm/data/synthetic_draws.h"

namespace dlrm {

/// Samples generated on request: ids by PowerLaw, dense features U[0, 100), labels 0 or 1
/// with equal chance, of several labels each on its own, weights of ids U[0, 1). Sample i is the
/// same in every epoch, on every rank, at every batch size.
class SyntheticSource : public BatchSource {
 public:
  SyntheticSource(const RunConfig& config, Split split, int rank, int world);

  const BatchPlan& plan() const override { return plan_; }
  void load(int64_t t, Batch& batch) const override;
  std::string describe() const override;

 private:
  struct Column {
    PowerLaw law;
    uint64_t key;
    int64_t hotness;
    bool weighted;
    uint64_t weight_key;
  };

  BatchPlan plan_;
  uint32_t stream_;  // differs between the splits
  uint64_t dense_key_;
  std::vector<uint64_t> label_keys_;
  double alpha_;
  int64_t dense_width_;
  int rank_, world_;
  std::vector<Column> columns_;
  bool weighted_;  // a column is
};

}  // namespace dlrm
