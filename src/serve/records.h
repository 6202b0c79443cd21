#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dlrm/encode/encoder.h"
#include "dlrm/encode/json_records.h"

#include "samples.h"

namespace dlrm::serve {

/// Makes samples of a model from records as its training data was imported from.
class RecordInputs {
 public:
  /// A usage_error begins with `where` if the model has a feature that the preprocessing lacks, or
  /// weights of ids, or another number of dense features.
  RecordInputs(Preprocessing preprocessing, const Inputs& inputs, const std::string& where);

  const Preprocessing& preprocessing() const { return encoder_.preprocessing(); }
  /// Columns of records: those that the model reads, and `more`.
  Columns columns(const std::vector<std::string>& more = {}) const;
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
  std::vector<Inputs::Feature> features_;  ///< of the model
  std::vector<size_t> places_;             ///< of the model's features in the preprocessing
};

/// The samples of {"records": [...], "shared": {...}}, of which there may be `most`.
Samples read_json_records(std::string_view text, const RecordInputs& inputs, int64_t most);

/// What a record has in a column, as JSON; null if it is missing.
std::string json_text(const Field& field);

/// Whether the first key of an object of JSON is "records" or "shared".
bool has_records(std::string_view text);

/// The samples as the list of objects that {"samples": [...]} takes.
std::string samples_text(const Samples& samples, const Inputs& inputs);

}  // namespace dlrm::serve
