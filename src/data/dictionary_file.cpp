#include "dlrm/data/dictionary_file.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/data/file_io.h"
#include "dlrm/data/partial_file.h"

#include "hdf5_session.h"

namespace dlrm {
namespace {

constexpr const char* kFormat = "dlrm-dictionary";
constexpr int64_t kVersion = 1;
constexpr int64_t kFirstId = 1;
constexpr size_t kFormatBytes = 32;

void write_attribute(hid_t object, const char* name, int64_t value, const std::string& path) {
  const H5Id space(H5Screate(H5S_SCALAR));
  const H5Id attribute(H5Acreate2(object, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT));
  if (!attribute.ok() || H5Awrite(attribute, H5T_NATIVE_INT64, &value) < 0) {
    throw run_error("{}: HDF5 cannot write attribute {}", path, name);
  }
}

void write_format(hid_t file, const std::string& path) {
  const H5Id type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type, std::strlen(kFormat));
  const H5Id space(H5Screate(H5S_SCALAR));
  const H5Id attribute(H5Acreate2(file, "format", type, space, H5P_DEFAULT, H5P_DEFAULT));
  if (!attribute.ok() || H5Awrite(attribute, type, kFormat) < 0) {
    throw run_error("{}: HDF5 cannot write attribute format", path);
  }
}

void write_feature(hid_t file, const FeatureVocabulary& feature, const std::string& path) {
  const H5Id links(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(links, 1);
  const hsize_t size = feature.values.size();
  const H5Id space(H5Screate_simple(1, &size, nullptr));
  const std::string name = "/" + feature.feature + "/values";
  const H5Id creation(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_obj_track_times(creation, false);  // the same values are the same file
  const H5Id set(
      H5Dcreate2(file, name.c_str(), H5T_STD_U32LE, space, links, creation, H5P_DEFAULT));
  const bool written = set.ok() && (size == 0 || H5Dwrite(set, H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL,
                                                          H5P_DEFAULT, feature.values.data()) >= 0);
  if (!written) throw run_error("{}: HDF5 cannot write {}", path, name);
  write_attribute(set, "missing_id", feature.missing_id, path);
}

/// The file's bytes, built in memory: HDF5 copes badly with a disk that is full.
std::vector<char> file_image(const std::string& path,
                             const std::vector<FeatureVocabulary>& features) {
  const Hdf5Session session;
  size_t bytes = size_t{1} << 20;
  for (const FeatureVocabulary& feature : features) bytes += feature.values.size() * 4 + 4096;
  const H5Id access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_fapl_core(access, bytes, 0);
  const H5Id file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access));
  if (!file.ok()) throw run_error("{}: HDF5 cannot create the file", path);
  write_format(file, path);
  write_attribute(file, "version", kVersion, path);
  write_attribute(file, "first_id", kFirstId, path);
  for (const FeatureVocabulary& feature : features) write_feature(file, feature, path);
  H5Fflush(file, H5F_SCOPE_GLOBAL);
  std::vector<char> image;
  const ssize_t size = H5Fget_file_image(file, nullptr, 0);
  if (size > 0) image.resize(static_cast<size_t>(size));
  if (size <= 0 || H5Fget_file_image(file, image.data(), image.size()) != size) {
    throw run_error("{}: HDF5 cannot write the file", path);
  }
  return image;
}

/// One integer attribute; -1 if there is none such.
int64_t read_attribute(hid_t object, const char* name) {
  if (H5Aexists(object, name) <= 0) return -1;
  const H5Id attribute(H5Aopen(object, name, H5P_DEFAULT));
  const H5Id space(H5Aget_space(attribute));
  int64_t value = -1;
  if (!space.ok() || H5Sget_simple_extent_npoints(space) != 1 ||
      H5Aread(attribute, H5T_NATIVE_INT64, &value) < 0) {
    return -1;
  }
  return value;
}

bool has_format(hid_t file) {
  if (H5Aexists(file, "format") <= 0) return false;
  const H5Id attribute(H5Aopen(file, "format", H5P_DEFAULT));
  const H5Id stored(H5Aget_type(attribute));
  if (H5Tget_class(stored) != H5T_STRING || H5Tis_variable_str(stored) > 0) return false;
  const H5Id type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type, kFormatBytes);
  std::array<char, kFormatBytes + 1> text{};
  return H5Aread(attribute, type, text.data()) >= 0 && std::strcmp(text.data(), kFormat) == 0;
}

FeatureVocabulary read_feature(hid_t file, const std::string& feature, const std::string& path) {
  const std::string name = "/" + feature + "/values";
  const bool there = H5Lexists(file, ("/" + feature).c_str(), H5P_DEFAULT) > 0 &&
                     H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0;
  if (!there) throw usage_error("{}: there is no {}; expected one a feature", path, name);
  const H5Id set(H5Dopen2(file, name.c_str(), H5P_DEFAULT));
  const H5Id space(H5Dget_space(set));
  hsize_t size = 0;
  if (H5Sget_simple_extent_ndims(space) != 1 ||
      H5Sget_simple_extent_dims(space, &size, nullptr) != 1) {
    throw usage_error("{}: {} must have one dimension", path, name);
  }
  FeatureVocabulary result;
  result.feature = feature;
  result.missing_id = read_attribute(set, "missing_id");
  if (result.missing_id < 0 || result.missing_id > static_cast<int64_t>(size)) {
    throw usage_error("{}: {} needs an attribute missing_id from 0 to {}", path, name, size);
  }
  if (H5Dget_storage_size(set) < size * sizeof(uint32_t)) {
    throw usage_error("{}: {} was not written wholly", path, name);
  }
  result.values.resize(size);
  if (size > 0 &&
      H5Dread(set, H5T_NATIVE_UINT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, result.values.data()) < 0) {
    throw usage_error("{}: {} cannot be read", path, name);
  }
  return result;
}

}  // namespace

void write_dictionary_file(const std::string& path,
                           const std::vector<FeatureVocabulary>& features) {
  PartialFile file(path);
  const std::string& partial = file.name();
  const std::vector<char> image = file_image(partial, features);
  const FileDescriptor fd(open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.ok()) throw usage_error("{}: cannot create: {}", path, std::strerror(errno));
  write_at(fd.get(), image.data(), static_cast<int64_t>(image.size()), 0, partial);
  file.publish(fd.get());
}

std::vector<FeatureVocabulary> read_dictionary_file(const std::string& path,
                                                    const std::vector<std::string>& features) {
  const Hdf5Session session;
  const H5Id file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  if (!file.ok()) throw usage_error("{}: not an HDF5 file; expected a dictionary", path);
  if (!has_format(file)) {
    throw usage_error("{}: not a dictionary; expected attribute format = {}", path, kFormat);
  }
  if (read_attribute(file, "version") != kVersion || read_attribute(file, "first_id") != kFirstId) {
    throw usage_error("{}: expected version {} and first_id {}", path, kVersion, kFirstId);
  }
  std::vector<FeatureVocabulary> result;
  for (const std::string& feature : features) {
    result.push_back(read_feature(file, feature, path));
  }
  return result;
}

}  // namespace dlrm
