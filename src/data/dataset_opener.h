#pragma once
#include <string>

#include "dlrm/data/dataset_file.h"
#include "dlrm/hdf5/file.h"

namespace dlrm {

/// Maps a dataset file and sets the addresses of a DatasetFile's columns.
class DatasetOpener {
 public:
  explicit DatasetOpener(DatasetFile& out) : out_(out), file_(open_file(out)) {}
  void open();

 private:
  static hdf5::File open_file(DatasetFile& out);
  void read_root();
  void read_samples();
  void read_feature(const std::string& name);
  void read_offsets(MappedFeature& feature, const std::string& group);

  /// Returns the dataset `name`, which must exist and have `dimensions` dimensions.
  hdf5::Dataset find(const std::string& name, size_t dimensions) const;
  /// Returns the address of its elements of `width` bytes; null if it has none. Throws if they are
  /// not contiguous in this file.
  const std::byte* map(const hdf5::Dataset& dataset, int64_t width) const;
  IdType id_type(const hdf5::Dataset& dataset) const;
  int64_t integer_attribute(const hdf5::Object& object, const char* name) const;

  DatasetFile& out_;
  hdf5::File file_;
};

}  // namespace dlrm
