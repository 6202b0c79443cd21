#include "dlrm/core/error.h"

#include "library.h"

namespace dlrm::hdf5 {
namespace {

hid_t native_type(Type type) {
  if (type == Type::kUint8) return H5T_NATIVE_UINT8;
  return type == Type::kInt64 ? H5T_NATIVE_INT64 : H5T_NATIVE_UINT32;
}

}  // namespace

int64_t Dataset::elements() const {
  const Lock lock;
  const Handle space(H5Dget_space(handle_.id()));
  return H5Sget_simple_extent_npoints(space.id());
}

std::optional<Type> Dataset::type() const {
  const Lock lock;
  const Handle type(H5Dget_type(handle_.id()));
  for (const Type known :
       {Type::kUint8, Type::kUint32, Type::kInt32, Type::kInt64, Type::kFloat32}) {
    if (H5Tequal(type.id(), stored_type(known)) > 0) return known;
  }
  return {};
}

Storage Dataset::storage() const {
  const Lock lock;
  const Handle creation(H5Dget_create_plist(handle_.id()));
  if (H5Pget_layout(creation.id()) != H5D_CONTIGUOUS || H5Pget_external_count(creation.id()) != 0) {
    return {Storage::Kind::kOther};
  }
  if (elsewhere_) return {Storage::Kind::kOtherFile};
  const haddr_t offset = H5Dget_offset(handle_.id());
  if (offset == HADDR_UNDEF) return {};
  return {Storage::Kind::kContiguous, static_cast<int64_t>(offset)};
}

int64_t Dataset::stored_bytes() const {
  const Lock lock;
  return static_cast<int64_t>(H5Dget_storage_size(handle_.id()));
}

void Dataset::read_as(Type type, void* out) const {
  const Lock lock;
  const herr_t done = H5Dread(handle_.id(), native_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, out);
  if (succeeded(done, "read", name())) return;
  throw usage_error("{}: HDF5 cannot read {}: {}", path(), name(), last_failure().reason);
}

void Dataset::write_as(Type type, const void* values) {
  const Lock lock;
  check(H5Dwrite(handle_.id(), native_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "write",
        name());
  // Few values stay in a buffer of the library. Closing the dataset would lose a failure to write
  // it.
  check(H5Dflush(handle_.id()), "write", name());
}

}  // namespace dlrm::hdf5
