#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dlrm/encode/json_records.h"

namespace dlrm {

/// How lines of delimited text are cut into fields.
struct TextFormat {
  char delimiter = ',';
  char quote = '"';  ///< '\0': there are no quotes
};

/// Reads lines of CSV or TSV as `dlrm-data import` does: a quote within quotes is doubled, and a
/// record is one line.
class TextRecords {
 public:
  /// `header` is the line of names. A usage_error names a column that is there twice, or one of
  /// `needed` that is not there.
  TextRecords(const TextFormat& format, std::string_view header, const Columns& columns,
              const std::vector<std::string>& needed);

  /// Appends the record of a line, without its end. A usage_error says what is wrong; then
  /// `records` are as they were.
  void append(std::string_view line, Records& records) const;

 private:
  TextFormat format_;
  std::vector<int32_t> columns_;  ///< of each field; -1: it is not read
};

}  // namespace dlrm
