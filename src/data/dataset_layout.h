#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/data/dataset_writer.h"

namespace dlrm {

/// Samples of a block with a checksum: those of a block of the shuffled order.
constexpr int64_t kChecksumSamples = 16384;

/// A range of bytes of a file.
struct Extent {
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// Number of columns of a feature: ids, possibly offsets, possibly weights.
inline size_t column_count(const FeatureColumn& feature) {
  return 1 + (feature.hotness == 0 ? 1 : 0) + (feature.weighted ? 1 : 0);
}
/// Number of columns of a layout: label, dense, possibly weight, then those of each feature.
size_t column_count(const DatasetLayout& layout);
/// The first column that belongs to a feature.
inline size_t first_feature_column(const DatasetLayout& layout) { return layout.weighted ? 3 : 2; }

/// Creates the HDF5 file with space for every column; ids[i] is the number of ids of feature i.
/// Returns the extents of the columns, in the order of column_count, and then those of their
/// checksums.
std::vector<Extent> create_dataset_file(const std::string& path, const DatasetLayout& layout,
                                        int64_t samples, const std::vector<int64_t>& ids);

/// Sets the attribute `rows` of every feature in a file made by create_dataset_file.
void write_rows_attributes(const std::string& path, const DatasetLayout& layout);

}  // namespace dlrm
