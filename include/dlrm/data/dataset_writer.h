#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dlrm/core/view.h"

namespace dlrm {

enum class LabelType : uint8_t { kUint8, kFloat32 };
enum class IdType : uint8_t { kInt32, kInt64 };
inline int64_t bytes_of(LabelType type) { return type == LabelType::kUint8 ? 1 : 4; }
inline int64_t bytes_of(IdType type) { return type == IdType::kInt32 ? 4 : 8; }

/// One sparse feature of a dataset file.
struct FeatureColumn {
  std::string name;
  int64_t hotness = 1;  ///< ids in every bag; 0: bags of any length, stored with offsets
  int64_t rows = 0;     ///< ids are below it; 0: told later, by set_rows
  IdType ids = IdType::kInt32;
};

/// The shape of a dataset file.
struct DatasetLayout {
  int64_t dense = 0;  ///< numbers a sample
  std::vector<FeatureColumn> features;
  LabelType label = LabelType::kUint8;
  /// Samples that will be written, where known: columns then go straight to their final place. -1:
  /// not known, columns are spooled beside the output first (twice the writing). Spooled too where
  /// a feature has offsets.
  int64_t samples = -1;
};

/// A feature's part of a block of samples: sample after sample.
struct BagColumn {
  View<const int32_t> ids;       ///< kInt32
  View<const int64_t> wide_ids;  ///< kInt64
  View<const int32_t> lengths;   ///< [samples] bag lengths; only where hotness is 0
};

/// Some consecutive samples, column by column.
struct DatasetBlock {
  int64_t samples = 0;
  View<const float> labels;     ///< [samples]
  View<const float> dense;      ///< [samples, dense]
  std::vector<BagColumn> bags;  ///< one a feature, in the layout's order
};

/// Writes a dataset file (docs/file-formats.md), contiguous and uncompressed, block by block. The
/// file appears under its name, whole and synced, only by finish(); without it nothing is left.
/// Values are written as they are: ids below `rows` are the caller's care. Used by one thread at a
/// time. Errors: usage_error for a path that cannot be created, run_error for a failed write (both
/// name the path).
class DatasetWriter {
 public:
  DatasetWriter(const std::string& path, DatasetLayout layout);
  ~DatasetWriter();
  DatasetWriter(const DatasetWriter&) = delete;
  DatasetWriter& operator=(const DatasetWriter&) = delete;

  void append(const DatasetBlock& block);
  /// Number of rows of feature `index` (ids are below it), where the layout did not tell or told
  /// otherwise.
  void set_rows(int64_t index, int64_t rows);
  /// Samples appended so far.
  int64_t samples() const;
  /// Ends the file: fsync, rename to `path`, fsync of the folder. Call once.
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrm
