#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dlrm/core/view.h"
#include "dlrm/encode/preprocessing.h"

namespace dlrm {

/// A value of a record as a log has it. A whole number beyond int64 is the text of its digits.
struct Value {
  enum class Kind : uint8_t { kMissing, kBool, kInteger, kNumber, kText };

  Kind kind = Kind::kMissing;
  int64_t integer = 0;    ///< of kInteger; 0 or 1 of kBool
  double number = 0;      ///< of kNumber; a NaN is a missing value
  std::string_view text;  ///< of kText: UTF-8
};

/// What a record has in one column: a value, or a list of them.
struct Field {
  bool listed = false;
  View<const Value> values;  ///< none, if it is missing; one, unless it is a list
};

/// Encodes records as the import did. It may be used by several threads at a time. A usage_error
/// says what is wrong with a value, and begins with the value itself: "'abc' is not a number".
class Encoder {
 public:
  explicit Encoder(Preprocessing preprocessing);

  const Preprocessing& preprocessing() const { return preprocessing_; }
  /// The number of dense column `column`.
  float dense(size_t column, const Field& field) const;
  /// Appends the ids of the feature at this place in `preprocessing().sparse`.
  void append_ids(size_t feature, const Field& field, std::vector<int64_t>& ids) const;

 private:
  void append_list(const Preprocessing::Sparse& feature, const Field& field,
                   std::vector<int64_t>& ids) const;
  int64_t id_of(const Preprocessing::Sparse& feature, const Value& value, bool in_list) const;
  int64_t id_of_integer(const Preprocessing::Sparse& feature, const Value& value) const;
  int64_t looked_up(const Preprocessing::Sparse& feature, std::string_view key) const;
  bool is_missing(std::string_view text) const;
  /// NaN if it is missing.
  double number_of(const Value& value) const;

  Preprocessing preprocessing_;
};

/// A value as an error shows it.
std::string shown(const Value& value);

}  // namespace dlrm
