#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dlrm/data/batch_source.h"
#include "dlrm/data/record_file.h"
#include "dlrm/data/record_inputs.h"

namespace dlrm {

/// A file of records to predict.
struct RecordsOptions {
  std::string path, format;       ///< as record_format() takes them
  std::vector<std::string> keys;  ///< columns to write beside each probability
};

/// Batches of the records of a file, in its order, whose labels are 0.
class RecordSource final : public BatchSource {
 public:
  /// `preprocessing`: of the data that the model was trained on. A usage_error says why the model
  /// takes no records, or what is wrong with the file.
  RecordSource(const RunConfig& config, const RecordsOptions& options,
               const FilePreprocessing& preprocessing, int rank, int world);

  const BatchPlan& plan() const override { return plan_; }
  void load(int64_t t, Batch& batch) const override;
  std::string describe() const override;

  /// What records [first, last) have in the columns of `keys`: fields of CSV with commas between.
  std::vector<std::string> keys(int64_t first, int64_t last) const;

 private:
  RecordsOptions options_;
  RecordInputs inputs_;
  Columns columns_;
  std::unique_ptr<RecordFile> file_;
  BatchPlan plan_;
  size_t features_, labels_;
  bool linear_;
  int rank_, world_;
};

}  // namespace dlrm
