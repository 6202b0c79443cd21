#include "dataset_opener.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/data/file_io.h"

namespace dlrm {
namespace {

herr_t collect_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

std::string shape_text(const std::vector<int64_t>& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

}  // namespace

void DatasetOpener::open() {
  open_file();
  read_root();
  read_samples();
  for (const std::string& name : feature_names()) read_feature(name);
}

void DatasetOpener::open_file() {
  const std::string& path = out_.path_;
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!fd.ok() || fstat(fd.get(), &status) != 0) {
    throw usage_error("{}: cannot open the dataset: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) throw usage_error("{}: not a file", path);
  const H5Id access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_file_locking(access, false, true);  // read-only, and some file systems have no locks
  file_ = H5Id(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access));
  if (!file_.ok()) throw usage_error("{}: not an HDF5 file, or a damaged one", path);
  out_.mapped_bytes_ = static_cast<size_t>(status.st_size);
  void* mapping = mmap(nullptr, out_.mapped_bytes_, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (mapping == MAP_FAILED) throw run_error("{}: cannot map: {}", path, std::strerror(errno));
  out_.mapping_ = mapping;
}

void DatasetOpener::read_root() {
  if (!has_attribute(file_, "format") || text_attribute(file_, "format") != "dlrm-dataset") {
    throw usage_error("{}: not a dataset: its root has no attribute format = \"dlrm-dataset\"",
                      out_.path_);
  }
  const int64_t version = int_attribute(file_, "/", "version");
  if (version != 1) {
    throw usage_error("{}: dataset version {}; this program reads version 1", out_.path_, version);
  }
  out_.samples_ = int_attribute(file_, "/", "samples");
  if (out_.samples_ < 0) {
    throw usage_error("{}: attribute samples is {}", out_.path_, out_.samples_);
  }
}

void DatasetOpener::read_samples() {
  const Found label = dataset("/label", 1);
  if (has_type(label.id, H5T_NATIVE_UINT8)) {
    out_.label_type_ = LabelType::kUint8;
  } else if (has_type(label.id, H5T_NATIVE_FLOAT)) {
    out_.label_type_ = LabelType::kFloat32;
  } else {
    throw usage_error("{}: /label must hold uint8 or float32", out_.path_);
  }
  if (label.dims[0] != out_.samples_) {
    throw usage_error("{}: /label has {} elements, attribute samples says {}", out_.path_,
                      label.dims[0], out_.samples_);
  }
  out_.labels_ = place(label, "/label", bytes_of(out_.label_type_));
  const Found dense = dataset("/dense", 2);
  if (!has_type(dense.id, H5T_NATIVE_FLOAT)) {
    throw usage_error("{}: /dense must hold float32", out_.path_);
  }
  if (dense.dims[0] != out_.samples_) {
    throw usage_error("{}: /dense has shape {}, its first dimension must be {} (samples)",
                      out_.path_, shape_text(dense.dims), out_.samples_);
  }
  out_.dense_width_ = dense.dims[1];
  out_.dense_ = place(dense, "/dense", 4);
}

std::vector<std::string> DatasetOpener::feature_names() const {
  std::vector<std::string> names;
  if (H5Lexists(file_, "/sparse", H5P_DEFAULT) <= 0) return names;
  hsize_t index = 0;
  if (H5Literate_by_name(file_, "/sparse", H5_INDEX_NAME, H5_ITER_INC, &index, collect_name, &names,
                         H5P_DEFAULT) < 0) {
    throw usage_error("{}: cannot list /sparse (it must be a group)", out_.path_);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void DatasetOpener::read_feature(const std::string& name) {
  const std::string group = "/sparse/" + name;
  const std::string where = group + "/ids";
  const Found ids = dataset(where, 1);
  MappedFeature feature;
  feature.name = name;
  feature.type = id_type(ids.id, where);
  feature.count = ids.dims[0];
  feature.ids = place(ids, where, bytes_of(feature.type));
  feature.rows = int_attribute(ids.id, where, "rows");
  if (feature.rows < 0) {
    throw usage_error("{}: {}: attribute rows is {}", out_.path_, where, feature.rows);
  }
  const bool offsets = H5Lexists(file_, (group + "/offsets").c_str(), H5P_DEFAULT) > 0;
  const bool hotness = has_attribute(ids.id, "hotness");
  if (offsets == hotness) {
    throw usage_error("{}: {} must have either attribute hotness on its ids or offsets{}",
                      out_.path_, group, offsets ? ", not both" : "");
  }
  if (offsets) {
    read_offsets(feature, group);
  } else {
    feature.hotness = int_attribute(ids.id, where, "hotness");
    if (feature.hotness < 1 || feature.count % feature.hotness != 0 ||
        feature.count / feature.hotness != out_.samples_) {
      throw usage_error("{}: {} holds {} ids; {} samples of hotness {} need another number",
                        out_.path_, where, feature.count, out_.samples_, feature.hotness);
    }
  }
  out_.features_.push_back(std::move(feature));
}

void DatasetOpener::read_offsets(MappedFeature& feature, const std::string& group) {
  const std::string where = group + "/offsets";
  const Found offsets = dataset(where, 1);
  if (!has_type(offsets.id, H5T_NATIVE_INT64)) {
    throw usage_error("{}: {} must hold int64", out_.path_, where);
  }
  if (offsets.dims[0] - 1 != out_.samples_) {
    throw usage_error("{}: {} has {} elements, samples + 1 = {} are needed", out_.path_, where,
                      offsets.dims[0], out_.samples_ + 1);
  }
  feature.offsets = place(offsets, where, 8);
  int64_t first = 0, last = 0;
  std::memcpy(&first, feature.offsets, 8);
  std::memcpy(&last, feature.offsets + out_.samples_ * 8, 8);
  if (first != 0 || last != feature.count) {
    throw usage_error("{}: {} goes from {} to {}; it must go from 0 to the number of ids, {}",
                      out_.path_, where, first, last, feature.count);
  }
}

}  // namespace dlrm
