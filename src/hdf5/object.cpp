#include <cstring>

#include "dlrm/core/error.h"

#include "library.h"

namespace dlrm::hdf5 {
namespace {

constexpr size_t kLongestFixedText = size_t{1} << 20;

/// True for a scalar, or for an array of one element.
bool is_single(hid_t attribute) {
  const Handle space(H5Aget_space(attribute));
  return space.ok() && H5Sget_simple_extent_npoints(space.id()) == 1;
}

/// Opens an attribute with one element of that class. Otherwise returns a handle that is not ok.
Handle open_single(hid_t object, const std::string& name, H5T_class_t type_class) {
  if (H5Aexists(object, name.c_str()) <= 0) return {};
  Handle attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT));
  if (!attribute.ok()) return {};
  const Handle type(H5Aget_type(attribute.id()));
  const bool fits = H5Tget_class(type.id()) == type_class && is_single(attribute.id());
  return fits ? std::move(attribute) : Handle();
}

template <class T>
std::optional<T> read_integer(hid_t object, const std::string& name, hid_t type) {
  const Handle attribute = open_single(object, name, H5T_INTEGER);
  T value = 0;
  if (!attribute.ok() || H5Aread(attribute.id(), type, &value) < 0) return {};
  return value;
}

std::optional<std::string> read_variable_text(hid_t attribute, hid_t type) {
  H5Tset_size(type, H5T_VARIABLE);
  char* text = nullptr;
  if (H5Aread(attribute, type, &text) < 0) return {};
  std::string result(text ? text : "");  // null stands for the empty text
  H5free_memory(text);
  return result;
}

std::optional<std::string> read_fixed_text(hid_t attribute, hid_t type, size_t size) {
  if (size > kLongestFixedText) return {};
  std::string text(size + 1, '\0');
  H5Tset_size(type, text.size());
  if (H5Aread(attribute, type, text.data()) < 0) return {};
  text.resize(std::strlen(text.c_str()));
  while (!text.empty() && text.back() == ' ') text.pop_back();  // removes padding
  return text;
}

Handle text_type(size_t size) {
  Handle type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.id(), size);
  return type;
}

bool write_attribute(hid_t object, const std::string& name, hid_t type, const void* value) {
  const bool there = H5Aexists(object, name.c_str()) > 0;
  const Handle space(H5Screate(H5S_SCALAR));
  const Handle attribute(
      there ? H5Aopen(object, name.c_str(), H5P_DEFAULT)
            : H5Acreate2(object, name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT));
  return attribute.ok() && H5Awrite(attribute.id(), type, value) >= 0;
}

}  // namespace

void Object::check(bool ok, const char* what, const std::string& name) const {
  if (!ok) throw run_error("{}: HDF5 cannot {} {}: {}", path_, what, name, last_error());
}

bool Object::has_attribute(const std::string& name) const {
  const Lock lock;
  return H5Aexists(handle_.id(), name.c_str()) > 0;
}

std::optional<int64_t> Object::integer(const std::string& name) const {
  const Lock lock;
  return read_integer<int64_t>(handle_.id(), name, H5T_NATIVE_INT64);
}

std::optional<uint64_t> Object::unsigned_integer(const std::string& name) const {
  const Lock lock;
  return read_integer<uint64_t>(handle_.id(), name, H5T_NATIVE_UINT64);
}

std::optional<std::string> Object::text(const std::string& name) const {
  const Lock lock;
  const Handle attribute = open_single(handle_.id(), name, H5T_STRING);
  if (!attribute.ok()) return {};
  const Handle stored(H5Aget_type(attribute.id()));
  const Handle memory(H5Tcopy(H5T_C_S1));
  H5Tset_cset(memory.id(), H5Tget_cset(stored.id()));
  if (H5Tis_variable_str(stored.id()) > 0) return read_variable_text(attribute.id(), memory.id());
  return read_fixed_text(attribute.id(), memory.id(), H5Tget_size(stored.id()));
}

void Object::set_integer(const std::string& name, int64_t value) {
  const Lock lock;
  check(write_attribute(handle_.id(), name, H5T_NATIVE_INT64, &value), "write attribute", name);
}

void Object::set_unsigned_integer(const std::string& name, uint64_t value) {
  const Lock lock;
  check(write_attribute(handle_.id(), name, H5T_NATIVE_UINT64, &value), "write attribute", name);
}

void Object::set_text(const std::string& name, const std::string& value) {
  const Lock lock;
  const Handle type = text_type(H5T_VARIABLE);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  const char* text = value.c_str();
  check(write_attribute(handle_.id(), name, type.id(), &text), "write attribute", name);
}

void Object::set_fixed_text(const std::string& name, const std::string& value) {
  const Lock lock;
  const Handle type = text_type(value.size());
  check(write_attribute(handle_.id(), name, type.id(), value.data()), "write attribute", name);
}

}  // namespace dlrm::hdf5
