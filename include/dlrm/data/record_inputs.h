#pragma once
#include <string>
#include <vector>

#include "dlrm/data/samples.h"
#include "dlrm/encode/encoder.h"
#include "dlrm/encode/json_records.h"

namespace dlrm {

/// Makes samples of a model from records as its training data was imported from.
class RecordInputs {
 public:
  /// A usage_error begins with `where` if the model has a feature that the preprocessing lacks, or
  /// weights of ids, or another number of dense features.
  RecordInputs(Preprocessing preprocessing, const Inputs& inputs, const std::string& where);

  const Preprocessing& preprocessing() const { return encoder_.preprocessing(); }
  /// Columns of records: those of the preprocessing.
  const Columns& columns() const { return columns_; }
  /// And `more`.
  Columns columns(const std::vector<std::string>& more) const;
  /// The names of the columns that every record of delimited text must have: those that the model
  /// reads, and `more`.
  std::vector<std::string> needed(const std::vector<std::string>& more) const;
  /// Appends a sample of each record. A usage_error names record and field. The fields of `shared`
  /// are encoded once.
  void append(const SharedRecords& records, const Columns& columns, Samples& samples) const;
  /// Appends the sample of one record. A usage_error names the field.
  void append(const Records& records, size_t record, const Columns& columns,
              Samples& samples) const;

 private:
  struct Source;
  void append_dense(const Source& source, const Columns& columns, Samples& samples) const;
  void append_ids(const Source& source, const Columns& columns, Samples& samples) const;

  Encoder encoder_;
  Columns columns_;
  std::vector<Inputs::Feature> features_;  ///< of the model
  std::vector<size_t> places_;             ///< of the model's features in the preprocessing
};

}  // namespace dlrm
