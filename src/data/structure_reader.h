#pragma once
#include <string>

#include "dlrm/hdf5/file.h"

#include "dataset_structure.h"

namespace dlrm {

/// Reads and checks the metadata of a dataset file through the HDF5 library.
class StructureReader {
 public:
  explicit StructureReader(const std::string& path);
  DatasetStructure read();

 private:
  void read_root();
  void read_samples();
  void read_labels();
  void read_weights();
  void read_dense();
  void read_preprocessing();
  void read_feature(const std::string& name);
  void read_weights(StoredFeature& feature, const std::string& group);
  void read_offsets(StoredFeature& feature, const std::string& group);

  /// Throws unless the dataset has one element for each sample.
  void check_one_each(const hdf5::Dataset& dataset) const;
  /// Returns the dataset `name`, which must exist, and have `dimensions` dimensions if given.
  hdf5::Dataset find(const std::string& name) const;
  hdf5::Dataset find(const std::string& name, size_t dimensions) const;
  /// Returns the place of a dataset and of its checksums. Throws if one is not contiguous in this
  /// file.
  StoredColumn locate(const hdf5::Dataset& dataset) const;
  int64_t offset_of(const hdf5::Dataset& dataset) const;
  int64_t sums_of(const hdf5::Dataset& dataset) const;
  IdType id_type(const hdf5::Dataset& dataset) const;
  int64_t integer_attribute(const hdf5::Object& object, const char* name) const;

  std::string path_;
  hdf5::File file_;
  DatasetStructure out_;
};

}  // namespace dlrm
