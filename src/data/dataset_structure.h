#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/data/dataset_writer.h"

namespace dlrm {

/// Where a column of a dataset file lies. Offsets are in bytes from the start of the file; -1 if
/// there is nothing.
struct StoredColumn {
  int64_t offset = -1;
  int64_t sums = -1;  ///< CRC32C of its blocks, uint32
};

struct StoredFeature {
  std::string name;
  int64_t rows = 0;
  int64_t hotness = 0;  ///< 0: with offsets
  IdType type = IdType::kInt32;
  int64_t count = 0;  ///< ids in all
  StoredColumn ids;
  StoredColumn offsets;
  bool weighted = false;  ///< has a weight for each id
  StoredColumn weights;
};

/// What the metadata of a dataset file says. Only the file's size is unchecked.
struct DatasetStructure {
  int64_t samples = 0;
  int64_t checksum_samples = 0;  ///< samples in a block with a checksum; 0: the file has none
  LabelType label_type = LabelType::kUint8;
  int64_t num_labels = 1;  ///< of a sample
  StoredColumn labels;
  bool weighted = false;  ///< has a weight for each sample
  StoredColumn weights;
  int64_t dense_width = 0;
  StoredColumn dense;
  int64_t preprocessing_bytes = 0;  ///< how the samples were made of records; 0: the file has none
  StoredColumn preprocessing;
  std::vector<StoredFeature> features;  ///< sorted by name
};

/// Reads the structures of files in a child process, because the HDF5 library crashes on some
/// damaged files. Anything wrong with a file is a usage_error that names it.
std::vector<DatasetStructure> read_structures(const std::vector<std::string>& paths);

}  // namespace dlrm
