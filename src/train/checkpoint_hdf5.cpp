#include "checkpoint_hdf5.h"

#include "dlrm/core/error.h"

namespace dlrm {

namespace {

// The library prints its error stack by itself otherwise; what is needed of it goes into our text.
void silence() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

herr_t deepest(unsigned, const H5E_error2_t* error, void* text) {
  if (error->desc) *static_cast<std::string*>(text) = error->desc;
  return 0;
}

std::string hdf5_reason() {
  std::string text = "unknown error";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, deepest, &text);
  return text;
}

H5Handle file_access() {
  H5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  // The newer format has checksummed metadata, and Virtual Datasets need it.
  H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110);
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG);
  // Nobody else opens a file of an unfinished checkpoint, finished ones are only read, and some
  // shared file systems have no locks.
  H5Pset_file_locking(access.get(), false, true);
  return access;
}

H5Handle string_type() {
  H5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), H5T_VARIABLE);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

}  // namespace

H5Handle simple_space(const std::vector<int64_t>& shape) {
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  return {H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose};
}

H5Handle intermediate_groups() {
  H5Handle link(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(link.get(), 1);
  return link;
}

H5File H5File::create(const std::string& path) {
  silence();
  const H5Handle access = file_access();
  H5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose);
  if (file.get() < 0) throw run_error("{}: cannot create: {}", path, hdf5_reason());
  return {path, std::move(file)};
}

H5File H5File::open(const std::string& path) {
  silence();
  const H5Handle access = file_access();
  H5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (file.get() < 0) throw run_error("{}: cannot open: {}", path, hdf5_reason());
  return {path, std::move(file)};
}

void H5File::close() {
  if (!file_.close()) throw run_error("{}: cannot write: {}", path_, hdf5_reason());
}

H5Handle H5File::check(hid_t id, herr_t (*close)(hid_t), const char* what,
                       const std::string& name) const {
  if (id < 0) throw run_error("{}: cannot {} {}: {}", path_, what, name, hdf5_reason());
  return {id, close};
}

void H5File::check(herr_t status, const char* what, const std::string& name) const {
  if (status < 0) throw run_error("{}: cannot {} {}: {}", path_, what, name, hdf5_reason());
}

int64_t H5File::create_floats(const std::string& name, const std::vector<int64_t>& shape) {
  const H5Handle space = simple_space(shape);
  const H5Handle layout(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_alloc_time(layout.get(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(layout.get(), H5D_FILL_TIME_NEVER);
  const H5Handle groups = intermediate_groups();
  const H5Handle data = check(H5Dcreate2(id(), name.c_str(), H5T_IEEE_F32LE, space.get(),
                                         groups.get(), layout.get(), H5P_DEFAULT),
                              H5Dclose, "create", name);
  if (H5Sget_simple_extent_npoints(space.get()) == 0) return 0;
  const haddr_t offset = H5Dget_offset(data.get());
  DLRM_CHECK(offset != HADDR_UNDEF, "{}: {} has no place in the file", path_, name);
  return static_cast<int64_t>(offset);
}

void H5File::write_integers(const std::string& name, const std::vector<int64_t>& values) {
  const H5Handle space = simple_space({static_cast<int64_t>(values.size())});
  const H5Handle groups = intermediate_groups();
  const H5Handle data = check(H5Dcreate2(id(), name.c_str(), H5T_STD_I64LE, space.get(),
                                         groups.get(), H5P_DEFAULT, H5P_DEFAULT),
                              H5Dclose, "create", name);
  if (values.empty()) return;
  check(H5Dwrite(data.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
        "write", name);
}

std::vector<int64_t> H5File::read_integers(const std::string& name) const {
  const H5Handle data = check(H5Dopen2(id(), name.c_str(), H5P_DEFAULT), H5Dclose, "open", name);
  const H5Handle space(H5Dget_space(data.get()), H5Sclose);
  std::vector<int64_t> values(static_cast<size_t>(H5Sget_simple_extent_npoints(space.get())));
  if (values.empty()) return values;
  check(H5Dread(data.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "read",
        name);
  return values;
}

void H5File::set_scalar(const std::string& name, hid_t type, const void* value) {
  const H5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const H5Handle attribute =
      check(H5Acreate2(id(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
            "create attribute", name);
  check(H5Awrite(attribute.get(), type, value), "write attribute", name);
}

void H5File::get_scalar(const std::string& name, hid_t type, void* value) const {
  const H5Handle attribute =
      check(H5Aopen(id(), name.c_str(), H5P_DEFAULT), H5Aclose, "open attribute", name);
  check(H5Aread(attribute.get(), type, value), "read attribute", name);
}

void H5File::set_attribute(const std::string& name, int64_t value) {
  set_scalar(name, H5T_NATIVE_INT64, &value);
}

void H5File::set_attribute(const std::string& name, uint64_t value) {
  set_scalar(name, H5T_NATIVE_UINT64, &value);
}

void H5File::set_attribute(const std::string& name, const std::string& value) {
  const H5Handle type = string_type();
  const char* text = value.c_str();
  set_scalar(name, type.get(), &text);
}

int64_t H5File::integer_attribute(const std::string& name) const {
  int64_t value = 0;
  get_scalar(name, H5T_NATIVE_INT64, &value);
  return value;
}

uint64_t H5File::unsigned_attribute(const std::string& name) const {
  uint64_t value = 0;
  get_scalar(name, H5T_NATIVE_UINT64, &value);
  return value;
}

std::string H5File::text_attribute(const std::string& name) const {
  const H5Handle type = string_type();
  char* text = nullptr;
  get_scalar(name, type.get(), &text);
  std::string value = text ? text : "";
  H5free_memory(text);
  return value;
}

}  // namespace dlrm
