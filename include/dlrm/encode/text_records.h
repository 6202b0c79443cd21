#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlrm/encode/json_records.h"

namespace dlrm {

/// How lines of delimited text are cut into fields.
struct TextFormat {
  char delimiter = ',';
  char quote = '"';                  ///< '\0': there are no quotes
  std::vector<std::string> columns;  ///< their names; none: the first line has them
};

/// What a file of records is.
struct RecordFormat {
  enum class Kind : uint8_t { kJson, kText, kParquet };
  Kind kind = Kind::kJson;
  TextFormat text;  ///< of kText
};

/// The format of a file: `given` (json, csv, tsv or parquet), or if that is empty, what its name
/// ends in, and for text what the import's schema says. JSON if none of them tells.
RecordFormat record_format(const std::string& path, const std::string& given,
                           const Preprocessing::Log& log);

/// Reads lines of records as `dlrm-data import` does: JSON, or delimited text, in which a quote
/// within quotes is doubled, and a record is one line.
class RecordLines {
 public:
  /// Text has all columns of `needed`. `columns` must stay.
  RecordLines(const RecordFormat& format, const Columns& columns, std::vector<std::string> needed);

  /// Whether the line of names comes next.
  bool needs_header() const { return needs_header_; }
  /// A usage_error names a column that is there twice, or one of those needed that is not there.
  void take_header(std::string_view line);
  /// Appends the record of a line, without its end. A usage_error says what is wrong; then
  /// `records` are as they were.
  void append(std::string_view line, Records& records) const;

 private:
  void take_names(const std::vector<std::string>& names);
  void append_text(std::string_view line, Records& records) const;

  RecordFormat format_;
  const Columns& columns_;
  std::vector<std::string> needed_;
  bool needs_header_ = false;
  std::vector<int32_t> fields_;  ///< the column of each field; -1: it is not read
};

}  // namespace dlrm
