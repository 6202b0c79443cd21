#pragma once
#include "dlrm/data/record_file.h"

#include "indexed_text.h"

namespace dlrm {

/// Records that are lines of JSON or of delimited text, plain or gzip.
class RecordLinesFile final : public RecordFile {
 public:
  RecordLinesFile(const std::string& path, const RecordFormat& format, const Columns& columns,
                  const std::vector<std::string>& needed, int64_t kept);

  int64_t size() const override { return text_.lines() - header_; }
  void append(int64_t first, int64_t last, Records& records) const override;
  std::string where(int64_t record) const override;

 private:
  IndexedText text_;
  RecordLines lines_;
  int64_t header_ = 0;  // lines
};

}  // namespace dlrm
