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
  int64_t rows = 0;     ///< ids are below it; 0: set later, by set_rows
  IdType ids = IdType::kInt32;
  int64_t count = -1;     ///< ids of all samples if hotness is 0, or -1 if unknown
  bool weighted = false;  ///< each id has a weight
};

/// The shape of a dataset file.
struct DatasetLayout {
  int64_t dense = 0;  ///< numbers per sample
  std::vector<FeatureColumn> features;
  LabelType label = LabelType::kUint8;
  int64_t labels = 1;         ///< of a sample
  bool weighted = false;      ///< samples have weights
  std::string preprocessing;  ///< how the samples were made of records; empty: nobody knows
  /// Samples that will be written, or -1 if unknown. If known, columns are written straight to
  /// their final place. If unknown, or if the number of ids of a feature with offsets is, they
  /// are first written to temporary files in the same folder, so every byte is written twice.
  int64_t samples = -1;
};

/// A feature's part of a block of samples: sample after sample.
struct BagColumn {
  View<const int32_t> ids;         ///< kInt32
  View<const int64_t> wide_ids;    ///< kInt64
  View<const int32_t> lengths;     ///< [samples] bag lengths, if hotness is 0
  View<const float> weights = {};  ///< [ids] if the feature is weighted
};

/// Some consecutive samples, column by column.
struct DatasetBlock {
  int64_t samples = 0;
  View<const float> labels;        ///< [samples, labels]
  View<const float> dense;         ///< [samples, dense]
  std::vector<BagColumn> bags;     ///< one per feature, in the layout's order
  View<const float> weights = {};  ///< [samples] if the layout is weighted, otherwise empty
};

/// Writes a dataset file (docs/file-formats.md), contiguous and uncompressed, block by block.
/// finish() gives the whole, synced file its name; without it no file remains. Values are not
/// checked: the caller keeps ids below `rows`. Used by one thread at a time. Errors: usage_error
/// for a path that cannot be created, run_error for a failed write (both name the path).
class DatasetWriter {
 public:
  /// With `buffers` bytes of memory, and if all sizes of the layout are known, the disk's space is
  /// reserved and columns are written in long pieces in the background, past the system's cache
  /// where the file system can. Otherwise every append writes to the cache.
  DatasetWriter(const std::string& path, DatasetLayout layout, int64_t buffers = 0);
  ~DatasetWriter();
  DatasetWriter(const DatasetWriter&) = delete;
  DatasetWriter& operator=(const DatasetWriter&) = delete;

  void append(const DatasetBlock& block);
  /// Sets the number of rows of feature `index`; ids are below it.
  void set_rows(int64_t index, int64_t rows);
  /// Samples appended so far.
  int64_t samples() const;
  /// Completes the file: syncs it, renames it to `path`, syncs the folder. Call once.
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrm
