#include <array>
#include <cstring>
#include <limits>

#include "dlrm/core/error.h"

#include "dataset_opener.h"

namespace dlrm {
namespace {

/// Attributes come as scalars or as arrays of one element.
bool is_single(hid_t attribute) {
  const H5Id space(H5Aget_space(attribute));
  return space.ok() && H5Sget_simple_extent_npoints(space) == 1;
}

unsigned long file_number(hid_t object) {
  H5O_info_t info{};
  return H5Oget_info2(object, &info, H5O_INFO_BASIC) < 0 ? 0 : info.fileno;
}

}  // namespace

DatasetOpener::Found DatasetOpener::dataset(const std::string& name, size_t rank) {
  Found found;
  found.id = H5Id(H5Dopen2(file_, name.c_str(), H5P_DEFAULT));
  if (!found.id.ok()) throw usage_error("{}: there is no dataset {}", out_.path_, name);
  const H5Id space(H5Dget_space(found.id));
  const int dims = H5Sget_simple_extent_ndims(space);
  if (dims != static_cast<int>(rank)) {
    throw usage_error("{}: {} has {} dimensions, {} needed", out_.path_, name, dims, rank);
  }
  std::vector<hsize_t> extent(rank);
  H5Sget_simple_extent_dims(space, extent.data(), nullptr);
  for (const hsize_t d : extent) {
    // Far above any file, and products of two still fit.
    if (d > (hsize_t{1} << 48)) throw usage_error("{}: {} is damaged", out_.path_, name);
    found.dims.push_back(static_cast<int64_t>(d));
  }
  return found;
}

const std::byte* DatasetOpener::place(const Found& found, const std::string& name,
                                      int64_t width) const {
  __int128 bytes = width;
  for (const int64_t d : found.dims) bytes *= d;
  if (bytes == 0) return nullptr;
  const H5Id creation(H5Dget_create_plist(found.id));
  if (H5Pget_layout(creation) != H5D_CONTIGUOUS || H5Pget_external_count(creation) != 0) {
    throw usage_error(
        "{}: {} must be contiguous and uncompressed ('h5repack -l CONTI -f NONE IN OUT' makes it "
        "so)",
        out_.path_, name);
  }
  if (file_number(found.id) != file_number(file_)) {
    throw usage_error("{}: {} lies in another file", out_.path_, name);
  }
  const haddr_t offset = H5Dget_offset(found.id);
  if (offset == HADDR_UNDEF) throw usage_error("{}: {} was never written", out_.path_, name);
  if (offset > out_.mapped_bytes_ || bytes > static_cast<__int128>(out_.mapped_bytes_ - offset)) {
    throw usage_error("{}: {} goes beyond the end of the file (cut short?)", out_.path_, name);
  }
  return static_cast<const std::byte*>(out_.mapping_) + offset;
}

bool DatasetOpener::has_type(hid_t dataset, hid_t native) const {
  const H5Id type(H5Dget_type(dataset));
  return type.ok() && H5Tequal(type, native) > 0;
}

IdType DatasetOpener::id_type(hid_t dataset, const std::string& name) const {
  if (has_type(dataset, H5T_NATIVE_INT32)) return IdType::kInt32;
  if (has_type(dataset, H5T_NATIVE_INT64)) return IdType::kInt64;
  throw usage_error("{}: {} must hold int32 or int64", out_.path_, name);
}

bool DatasetOpener::has_attribute(hid_t object, const char* name) const {
  return H5Aexists(object, name) > 0;
}

int64_t DatasetOpener::int_attribute(hid_t object, const std::string& where,
                                     const char* name) const {
  if (!has_attribute(object, name)) {
    throw usage_error("{}: {} has no attribute {}", out_.path_, where, name);
  }
  const H5Id attribute(H5Aopen(object, name, H5P_DEFAULT));
  const H5Id type(H5Aget_type(attribute));
  int64_t value = 0;
  if (!attribute.ok() || H5Tget_class(type) != H5T_INTEGER || !is_single(attribute) ||
      H5Aread(attribute, H5T_NATIVE_INT64, &value) < 0) {
    throw usage_error("{}: {}: attribute {} must be one integer", out_.path_, where, name);
  }
  return value;
}

std::string DatasetOpener::text_attribute(hid_t object, const char* name) const {
  const H5Id attribute(H5Aopen(object, name, H5P_DEFAULT));
  const H5Id type(H5Aget_type(attribute));
  if (!attribute.ok() || H5Tget_class(type) != H5T_STRING || !is_single(attribute)) return {};
  const H5Id memory(H5Tcopy(H5T_C_S1));
  H5Tset_cset(memory, H5Tget_cset(type));
  if (H5Tis_variable_str(type) > 0) {
    H5Tset_size(memory, H5T_VARIABLE);
    char* text = nullptr;
    if (H5Aread(attribute, memory, &text) < 0 || text == nullptr) return {};
    std::string result(text);
    H5free_memory(text);
    return result;
  }
  // Longer texts are cut: none that means anything here is as long.
  std::array<char, 64> text{};
  H5Tset_size(memory, text.size());
  if (H5Aread(attribute, memory, text.data()) < 0) return {};
  std::string result(text.data(), strnlen(text.data(), text.size()));
  while (!result.empty() && result.back() == ' ') result.pop_back();  // space-padded
  return result;
}

}  // namespace dlrm
