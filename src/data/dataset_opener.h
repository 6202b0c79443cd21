#pragma once
#include <string>
#include <vector>

#include "dlrm/data/dataset_file.h"

#include "hdf5_session.h"

namespace dlrm {

/// Reads a dataset file's structure through HDF5 and fills a DatasetFile with offsets into its
/// mapping. Holds the HDF5 lock while it lives.
class DatasetOpener {
 public:
  explicit DatasetOpener(DatasetFile& out) : out_(out) {}
  void open();

 private:
  struct Found {
    H5Id id;
    std::vector<int64_t> dims;
    const std::byte* data = nullptr;
  };

  void open_file();
  void read_root();
  void read_samples();
  void read_feature(const std::string& name);
  void read_offsets(MappedFeature& feature, const std::string& group);
  std::vector<std::string> feature_names() const;

  /// A dataset that must be there, with `rank` dimensions, contiguous, inside the file.
  Found dataset(const std::string& name, size_t rank);
  const std::byte* place(const Found& found, const std::string& name, int64_t width) const;
  IdType id_type(hid_t dataset, const std::string& name) const;
  bool has_type(hid_t dataset, hid_t native) const;

  bool has_attribute(hid_t object, const char* name) const;
  int64_t int_attribute(hid_t object, const std::string& where, const char* name) const;
  std::string text_attribute(hid_t object, const char* name) const;

  DatasetFile& out_;
  Hdf5Session session_;
  H5Id file_;
};

}  // namespace dlrm
