#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/core/block_writer.h"
#include "dlrm/core/file.h"

#include "dataset_layout.h"

namespace dlrm {

/// Collects the bytes of columns and writes them to the extents of a file in long pieces, in the
/// background and past the system's cache where the file system can. Errors are run_errors that
/// name the file.
class ColumnBuffers {
 public:
  /// The first `columns` extents are those of columns. `bytes` is the memory for all.
  ColumnBuffers(const std::string& path, const std::vector<Extent>& extents, size_t columns,
                int64_t bytes);

  void append(size_t column, const void* data, int64_t bytes);
  /// Writes what is left. The file is not synced.
  void finish();

 private:
  struct Column {
    AlignedBlock data;
    size_t used = 0;
    int64_t offset = 0;  ///< of `data` in the file
    bool aligned = false;
  };

  File direct_, cached_;
  std::vector<Column> columns_;
  BlockWriter writer_;
};

}  // namespace dlrm
