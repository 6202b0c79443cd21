#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dlrm/encode/text_records.h"

namespace dlrm {

/// The records of a file as `dlrm-data import` reads them, at any place. Several threads may read.
class RecordFile {
 public:
  virtual ~RecordFile() = default;
  virtual int64_t size() const = 0;
  /// Appends records [first, last). A usage_error names the file and the place in it.
  virtual void append(int64_t first, int64_t last, Records& records) const = 0;
  /// For errors: "log.csv:17" or "log.parquet, record 16".
  virtual std::string where(int64_t record) const = 0;
};

/// Opens a file of records that have these columns, which must stay. Text and Parquet need to have
/// all of `needed`. Records at most so many behind the furthest ones, `kept`, are read without
/// going back. A usage_error says what is wrong with the file.
std::unique_ptr<RecordFile> open_record_file(const std::string& path, const RecordFormat& format,
                                             const Columns& columns,
                                             const std::vector<std::string>& needed, int64_t kept);

}  // namespace dlrm
