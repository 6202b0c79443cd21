#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dlrm/core/view.h"
#include "dlrm/encode/arrow_column.h"
#include "dlrm/encode/preprocessing.h"

namespace dlrm {

/// A value of a record as a log has it. A whole number beyond int64 is the text of its digits.
struct Value {
  enum class Kind : uint8_t { kMissing, kBool, kInteger, kNumber, kText };

  Kind kind = Kind::kMissing;
  int64_t integer = 0;    ///< of kInteger; 0 or 1 of kBool
  double number = 0;      ///< of kNumber; a NaN is a missing value
  std::string_view text;  ///< of kText: UTF-8
  bool single = false;    ///< `number` was a float, whose shortest digits are fewer
};

/// The value at a place of a column. Its text is that of the column.
Value value_at(const ArrowColumn& column, int64_t place);

/// What a record has in one column: a value, or a list of them.
struct Field {
  bool listed = false;
  View<const Value> values;  ///< none, if it is missing; one, unless it is a list
};

/// Encodes records as the import does. It may be used by several threads at a time. A usage_error
/// says what is wrong with a value, and begins with the value itself: "'abc' is not a number".
class Encoder {
 public:
  explicit Encoder(Preprocessing preprocessing);

  const Preprocessing& preprocessing() const { return preprocessing_; }
  /// The number of dense column `column`.
  float dense(size_t column, const Field& field) const;
  /// Appends the ids of the feature at this place in `preprocessing().sparse`.
  void append_ids(size_t feature, const Field& field, std::vector<int64_t>& ids) const;
  /// Fetches memory for append_ids(), in two calls: of `at_place` false, and then true.
  void prefetch(size_t feature, const Field& field, bool at_place) const;

  // Of many records:
  /// Fills `numbers` [records]; 0 where a value is refused.
  void dense_column(size_t column, const ArrowColumn& values, float* numbers,
                    std::vector<RefusedValue>& refused) const;
  /// The same before columns are standardised.
  void plain_dense_column(size_t column, const ArrowColumn& values, double* numbers,
                          std::vector<RefusedValue>& refused) const;
  /// The feature's ids; with `keys` numbers of the dictionary's keys instead, so that new keys can
  /// get ids. Keys may be in the bytes of `values`.
  EncodedColumn sparse_column(size_t feature, const ArrowColumn& values, bool keys) const;
  /// The numbers of any column, NaN where one is missing or refused.
  void number_column(const ArrowColumn& values, double* numbers,
                     std::vector<RefusedValue>& refused) const;

 private:
  struct Key;
  class ColumnRun;

  float finished(const Preprocessing::Dense& dense, double number, const Value& value) const;
  double scaled(const Preprocessing::Dense& dense, double number, const Value& value) const;
  Key key_of(const Preprocessing::Sparse& feature, const Value& value, bool in_list,
             std::string& room) const;
  int64_t whole_number(const Preprocessing::Sparse& feature, const Value& value) const;
  int64_t id_of(const Preprocessing::Sparse& feature, const Key& key) const;
  bool is_missing(std::string_view text) const;
  /// NaN if it is missing.
  double number_of(const Value& value) const;

  Preprocessing preprocessing_;
};

/// The canonical texts of a column, whose own texts they may be in, as the keys of a dictionary.
EncodedColumn text_column(const ArrowColumn& values);

/// A value as an error shows it.
std::string shown(const Value& value);

}  // namespace dlrm
