#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dlrm/data/record_file.h"

#include "python_process.h"

namespace dlrm {

/// Records of a Parquet file, whose row groups a process of Python reads.
class ParquetRecords final : public RecordFile {
 public:
  ParquetRecords(const std::string& path, const Columns& columns,
                 const std::vector<std::string>& needed, int64_t kept);

  int64_t size() const override { return starts_.back(); }
  void append(int64_t first, int64_t last, Records& records) const override;
  std::string where(int64_t record) const override;

 private:
  /// Some records of a row group that follow one another, column by column.
  struct Part {
    int64_t records = 0;
    std::vector<ArrowColumn> columns;
  };
  struct Group {
    std::unique_ptr<std::byte[]> bytes;
    std::vector<Part> parts;
  };

  std::shared_ptr<const Group> group(size_t number) const;
  std::shared_ptr<const Group> read(size_t number) const;
  void append_part(const Part& part, int64_t first, int64_t last, Records& records) const;

  std::string path_;
  int64_t kept_records_;
  std::vector<size_t> places_;      // of the file's columns in records
  std::vector<int64_t> starts_{0};  // [groups + 1] records before each
  mutable std::mutex mutex_;
  mutable std::unique_ptr<PythonProcess> process_;
  mutable std::map<size_t, std::shared_ptr<const Group>> kept_;
};

}  // namespace dlrm
