#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "dlrm/core/view.h"
#include "dlrm/data/record_inputs.h"

namespace dlrm::serve {

/// How the rows of tables are held in memory. int8 rows have a scale each. Mapped rows are fp32 and
/// stay in the checkpoint's files; tables that are not whole in one file are copied.
enum class TableType : uint8_t { kAsTrained, kFp32, kBf16, kInt8, kMapped };

/// The type that `--tables` names: fp32, bf16, int8 or mapped. usage_error for any other name.
TableType table_type(const std::string& name);

struct LoadOptions {
  TableType tables = TableType::kAsTrained;
  int threads = 1;
  int batches = 1;  ///< that are predicted at the same time, at most; they share the threads
  int64_t batch_size = 256;  ///< samples that are computed at once, at most

  /// The same with as few batches as give each thread enough samples for its work to take longer
  /// than meeting the others of its batch after each operation.
  LoadOptions for_requests() const;
};

/// A model of a checkpoint, for predictions on a CPU. It keeps nothing of the training, such as
/// optimizer state. Mapped files may be removed meanwhile, but must not be changed.
class TrainedModel {
 public:
  /// Loads a `step_*` folder. Contents must have been verified (find_checkpoint); this verifies
  /// sizes. Throws usage_error if the folder is damaged.
  TrainedModel(const std::string& checkpoint, const LoadOptions& options);
  ~TrainedModel();

  const Inputs& inputs() const { return inputs_; }
  bool takes_records() const { return records_ != nullptr; }
  /// A usage_error says why if records cannot be predicted.
  const RecordInputs& records() const;
  /// Whether what is a request to the other model is one to this model too, and means the same. A
  /// preprocessing may have grown, and the tables with it.
  bool replaces(const TrainedModel& other) const;
  const std::string& checkpoint() const { return checkpoint_; }
  int64_t step() const { return step_; }  ///< steps that the model was trained for
  int64_t table_bytes() const;            ///< memory of all tables, mapped ones apart

  /// Calls of predict() that compute at the same time. More wait for their turn.
  int batches() const;
  /// The probability of each sample. p [samples.size, labels]. Any thread may call it. Throws
  /// run_error if a mapped file can no longer be read.
  void predict(const Samples& samples, View<float> p);

 private:
  class Impl;
  std::string checkpoint_;
  int64_t step_ = 0;
  Inputs inputs_;
  std::unique_ptr<RecordInputs> records_;
  std::string no_records_;  ///< why there are none
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrm::serve
