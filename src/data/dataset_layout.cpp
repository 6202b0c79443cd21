#include "dataset_layout.h"

#include <hdf5.h>

#include "dlrm/core/error.h"

#include "hdf5_session.h"

namespace dlrm {
namespace {

// Every column of a page or more begins on one, so that a reader may map or read it directly.
constexpr hsize_t kAlignment = 4096;

class Creator {
 public:
  explicit Creator(const std::string& path) : path_(path) {
    const H5Id access(H5Pcreate(H5P_FILE_ACCESS));
    H5Pset_alignment(access, kAlignment, kAlignment);
    file_ = H5Id(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access));
    if (!file_.ok()) throw usage_error("{}: cannot create the file", path);
    storage_ = H5Id(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_layout(storage_, H5D_CONTIGUOUS);
    H5Pset_alloc_time(storage_, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(storage_, H5D_FILL_TIME_NEVER);
    H5Pset_obj_track_times(storage_, 0);  // the same data makes the same bytes
    links_ = H5Id(H5Pcreate(H5P_LINK_CREATE));
    H5Pset_create_intermediate_group(links_, 1);
  }

  hid_t file() const { return file_; }

  void text_attribute(const char* name, const std::string& value) {
    const H5Id type(H5Tcopy(H5T_C_S1));
    H5Tset_size(type, value.size());
    const H5Id space(H5Screate(H5S_SCALAR));
    const H5Id attribute(H5Acreate2(file_, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
    check(attribute.ok() && H5Awrite(attribute, type, value.data()) >= 0, name);
  }

  void int_attribute(hid_t object, const char* name, int64_t value) {
    const H5Id space(H5Screate(H5S_SCALAR));
    const H5Id attribute(H5Acreate2(object, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT));
    check(attribute.ok() && H5Awrite(attribute, H5T_NATIVE_INT64, &value) >= 0, name);
  }

  H5Id dataset(const std::string& name, hid_t type, std::vector<hsize_t> dims, int64_t width) {
    const H5Id space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
    H5Id made(H5Dcreate2(file_, name.c_str(), type, space, links_, storage_, H5P_DEFAULT));
    check(made.ok(), name);
    int64_t bytes = width;
    for (const hsize_t d : dims) bytes *= static_cast<int64_t>(d);
    // An empty dataset has no place in the file.
    const haddr_t offset = bytes == 0 ? 0 : H5Dget_offset(made);
    check(offset != HADDR_UNDEF, name);
    extents_.push_back({static_cast<int64_t>(offset), bytes});
    return made;
  }

  std::vector<Extent> close() {
    storage_ = H5Id();
    check(H5Fflush(file_, H5F_SCOPE_GLOBAL) >= 0, "flush");
    return std::move(extents_);
  }

 private:
  void check(bool ok, const std::string& what) const {
    if (!ok) throw run_error("{}: HDF5 cannot write {}", path_, what);
  }

  std::string path_;
  H5Id file_, storage_, links_;
  std::vector<Extent> extents_;
};

void create_feature(Creator& creator, const FeatureColumn& feature, int64_t samples, int64_t ids) {
  const std::string group = "/sparse/" + feature.name;
  const bool narrow = feature.ids == IdType::kInt32;
  const H5Id made = creator.dataset(group + "/ids", narrow ? H5T_STD_I32LE : H5T_STD_I64LE,
                                    {static_cast<hsize_t>(ids)}, bytes_of(feature.ids));
  creator.int_attribute(made, "rows", feature.rows);
  if (feature.hotness > 0) {
    creator.int_attribute(made, "hotness", feature.hotness);
    return;
  }
  creator.dataset(group + "/offsets", H5T_STD_I64LE, {static_cast<hsize_t>(samples) + 1}, 8);
}

}  // namespace

size_t column_count(const DatasetLayout& layout) {
  size_t count = 2;
  for (const FeatureColumn& feature : layout.features) count += feature.hotness > 0 ? 1 : 2;
  return count;
}

std::vector<Extent> create_dataset_file(const std::string& path, const DatasetLayout& layout,
                                        int64_t samples, const std::vector<int64_t>& ids) {
  const Hdf5Session session;
  Creator creator(path);
  creator.text_attribute("format", "dlrm-dataset");
  creator.int_attribute(creator.file(), "version", 1);
  creator.int_attribute(creator.file(), "samples", samples);
  const auto n = static_cast<hsize_t>(samples);
  const bool bytes = layout.label == LabelType::kUint8;
  creator.dataset("/label", bytes ? H5T_STD_U8LE : H5T_IEEE_F32LE, {n}, bytes_of(layout.label));
  creator.dataset("/dense", H5T_IEEE_F32LE, {n, static_cast<hsize_t>(layout.dense)}, 4);
  for (size_t f = 0; f < layout.features.size(); ++f) {
    create_feature(creator, layout.features[f], samples, ids[f]);
  }
  return creator.close();
}

void write_rows_attributes(const std::string& path, const DatasetLayout& layout) {
  const Hdf5Session session;
  const H5Id file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
  if (!file.ok()) throw run_error("{}: cannot open the file again", path);
  for (const FeatureColumn& feature : layout.features) {
    const std::string name = "/sparse/" + feature.name + "/ids";
    const H5Id ids(H5Dopen2(file, name.c_str(), H5P_DEFAULT));
    const H5Id attribute(H5Aopen(ids, "rows", H5P_DEFAULT));
    if (!attribute.ok() || H5Awrite(attribute, H5T_NATIVE_INT64, &feature.rows) < 0) {
      throw run_error("{}: HDF5 cannot write rows of {}", path, feature.name);
    }
  }
}

}  // namespace dlrm
