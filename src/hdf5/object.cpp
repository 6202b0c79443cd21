#include <cstring>

#include "dlrm/core/error.h"

#include "library.h"

namespace dlrm::hdf5 {
namespace {

constexpr size_t kLongestFixedText = size_t{1} << 20;

/// True for a scalar, or for an array of one element.
bool is_single(hid_t attribute) {
  const Handle space(H5Aget_space(attribute));
  return H5Sget_simple_extent_npoints(space.id()) == 1;
}

/// Empty if the attribute cannot be read, like the text of fixed length.
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

}  // namespace

void Object::check(int64_t result, const char* what, const std::string& name) const {
  if (result >= 0) return;
  throw run_error("{}: HDF5 cannot {} {}: {}", path_, what, name, last_failure().reason);
}

bool Object::succeeded(int64_t result, const char* what, const std::string& name) const {
  if (result < 0 && last_failure().unreadable) check(result, what, name);
  return result >= 0;
}

Handle Object::open_single(const std::string& name, bool text) const {
  Handle attribute(H5Aopen(handle_.id(), name.c_str(), H5P_DEFAULT));
  if (!succeeded(attribute.id(), "read attribute", name)) return {};
  const Handle type(H5Aget_type(attribute.id()));
  const H5T_class_t wanted = text ? H5T_STRING : H5T_INTEGER;
  const bool fits = H5Tget_class(type.id()) == wanted && is_single(attribute.id());
  return fits ? std::move(attribute) : Handle();
}

void Object::write_attribute(const std::string& name, int64_t type, const void* value) {
  const bool there = H5Aexists(handle_.id(), name.c_str()) > 0;
  const Handle space(H5Screate(H5S_SCALAR));
  const Handle attribute(
      there ? H5Aopen(handle_.id(), name.c_str(), H5P_DEFAULT)
            : H5Acreate2(handle_.id(), name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT));
  // Here, because the end of a handle clears the library's error.
  check(attribute.id(), "write attribute", name);
  check(H5Awrite(attribute.id(), type, value), "write attribute", name);
}

bool Object::has_attribute(const std::string& name) const {
  const Lock lock;
  const htri_t there = H5Aexists(handle_.id(), name.c_str());
  return succeeded(there, "read attribute", name) && there > 0;
}

std::optional<int64_t> Object::integer(const std::string& name) const {
  const Lock lock;
  const Handle attribute = open_single(name, false);
  int64_t value = 0;
  if (H5Aread(attribute.id(), H5T_NATIVE_INT64, &value) < 0) return {};
  return value;
}

std::optional<uint64_t> Object::unsigned_integer(const std::string& name) const {
  const Lock lock;
  const Handle attribute = open_single(name, false);
  uint64_t value = 0;
  if (H5Aread(attribute.id(), H5T_NATIVE_UINT64, &value) < 0) return {};
  return value;
}

std::optional<std::string> Object::text(const std::string& name) const {
  const Lock lock;
  const Handle attribute = open_single(name, true);
  const Handle stored(H5Aget_type(attribute.id()));
  const Handle memory(H5Tcopy(H5T_C_S1));
  H5Tset_cset(memory.id(), H5Tget_cset(stored.id()));
  const auto text = H5Tis_variable_str(stored.id()) > 0
                        ? read_variable_text(attribute.id(), memory.id())
                        : read_fixed_text(attribute.id(), memory.id(), H5Tget_size(stored.id()));
  succeeded(text ? 0 : -1, "read attribute", name);
  return text;
}

void Object::set_integer(const std::string& name, int64_t value) {
  const Lock lock;
  write_attribute(name, H5T_NATIVE_INT64, &value);
}

void Object::set_unsigned_integer(const std::string& name, uint64_t value) {
  const Lock lock;
  write_attribute(name, H5T_NATIVE_UINT64, &value);
}

void Object::set_text(const std::string& name, const std::string& value) {
  const Lock lock;
  const Handle type = text_type(H5T_VARIABLE);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  const char* text = value.c_str();
  write_attribute(name, type.id(), &text);
}

void Object::set_fixed_text(const std::string& name, const std::string& value) {
  const Lock lock;
  const Handle type = text_type(value.size());
  write_attribute(name, type.id(), value.data());
}

}  // namespace dlrm::hdf5
