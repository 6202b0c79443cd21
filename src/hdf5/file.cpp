#include "dlrm/hdf5/file.h"

#include <limits>

#include "dlrm/core/error.h"

#include "library.h"

namespace dlrm::hdf5 {
namespace {

constexpr size_t kMemoryStep = size_t{1} << 20;  // bytes by which a file in memory grows

Handle file_access() {
  Handle access(H5Pcreate(H5P_FILE_ACCESS));
  // Closing the file closes all open objects in it, so that everything is written.
  H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG);
  return access;
}

/// `properties` are the caller's, because their end would clear the library's error.
Handle open_handle(const std::string& path, File::Access access, const Handle& properties) {
  const bool writes = access == File::Access::kReadWrite;
  if (!writes) H5Pset_file_locking(properties.id(), false, true);
  return Handle(H5Fopen(path.c_str(), writes ? H5F_ACC_RDWR : H5F_ACC_RDONLY, properties.id()));
}

Handle intermediate_groups() {
  Handle links(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(links.id(), 1);
  return links;
}

unsigned long file_number(hid_t object) {
  H5O_info_t info{};
  H5Oget_info2(object, &info, H5O_INFO_BASIC);
  return info.fileno;
}

Shape shape_of(hid_t dataset) {
  const Handle space(H5Dget_space(dataset));
  std::vector<hsize_t> extent(static_cast<size_t>(H5Sget_simple_extent_ndims(space.id())));
  H5Sget_simple_extent_dims(space.id(), extent.data(), nullptr);
  return {extent.begin(), extent.end()};
}

herr_t collect_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

/// Escapes a name for a virtual dataset's mapping, in which % begins a block number.
std::string escape_pattern(const std::string& name) {
  std::string result;
  for (const char c : name) result.append(c == '%' ? 2 : 1, c);
  return result;
}

}  // namespace

File File::create(const std::string& path, const CreateOptions& options) {
  const Lock lock;
  const Handle access = file_access();
  const auto alignment = static_cast<hsize_t>(options.alignment);
  H5Pset_alignment(access.id(), alignment, alignment);
  if (options.checksums) H5Pset_libver_bounds(access.id(), H5F_LIBVER_V110, H5F_LIBVER_V110);
  if (!options.lock) H5Pset_file_locking(access.id(), false, true);
  File file(path, "/", Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id())));
  file.check(file.handle_.id(), "create", "the file");
  return file;
}

File File::create_in_memory(const std::string& path) {
  const Lock lock;
  const Handle access = file_access();
  H5Pset_fapl_core(access.id(), kMemoryStep, 0);
  File file(path, "/", Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id())));
  file.check(file.handle_.id(), "create", "the file");
  return file;
}

File File::open(const std::string& path, Access access) {
  const Lock lock;
  const Handle properties = file_access();
  File file(path, "/", open_handle(path, access, properties));
  file.check(file.handle_.id(), "open", "the file");
  return file;
}

std::optional<File> File::try_open(const std::string& path) {
  const Lock lock;
  const Handle properties = file_access();
  File file(path, "/", open_handle(path, Access::kRead, properties));
  if (!file.succeeded(file.handle_.id(), "read", "the file")) return {};
  return file;
}

void File::close() {
  const Lock lock;
  check(H5Fclose(handle_.release()), "write", "the file");
}

std::vector<char> File::image() {
  const Lock lock;
  check(H5Fflush(handle_.id(), H5F_SCOPE_GLOBAL), "write", "the file");
  std::vector<char> image(static_cast<size_t>(H5Fget_file_image(handle_.id(), nullptr, 0)));
  check(H5Fget_file_image(handle_.id(), image.data(), image.size()), "write", "the file");
  return image;
}

bool File::exists(const std::string& name) const {
  const Lock lock;
  for (size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
    const std::string object = name.substr(0, end);
    const htri_t there = H5Lexists(handle_.id(), object.c_str(), H5P_DEFAULT);
    if (!succeeded(there, "read", object) || there == 0) return false;
    if (end == std::string::npos) return true;
  }
}

std::optional<std::vector<std::string>> File::names_in(const std::string& group) const {
  const Lock lock;
  std::vector<std::string> names;
  hsize_t index = 0;
  const herr_t listed = H5Literate_by_name(handle_.id(), group.c_str(), H5_INDEX_NAME, H5_ITER_INC,
                                           &index, collect_name, &names, H5P_DEFAULT);
  if (!succeeded(listed, "list", group)) return {};
  return names;
}

std::optional<Dataset> File::find_dataset(const std::string& name) const {
  const Lock lock;
  Handle handle(H5Dopen2(handle_.id(), name.c_str(), H5P_DEFAULT));
  if (!succeeded(handle.id(), "read", name)) return {};
  const bool elsewhere = file_number(handle.id()) != file_number(handle_.id());
  Shape shape = shape_of(handle.id());
  return Dataset(*this, name, std::move(handle), std::move(shape), elsewhere);
}

Dataset File::dataset(const std::string& name) const {
  const Lock lock;
  std::optional<Dataset> found = find_dataset(name);
  check(found ? 0 : -1, "open", name);
  return std::move(*found);
}

Dataset File::create_dataset(const std::string& name, Type type, const Shape& shape) {
  const Lock lock;
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER);
  H5Pset_obj_track_times(creation.id(), false);
  const Handle space = make_space(shape);
  const Handle groups = intermediate_groups();
  Handle handle(H5Dcreate2(handle_.id(), name.c_str(), stored_type(type), space.id(), groups.id(),
                           creation.id(), H5P_DEFAULT));
  check(handle.id(), "create", name);
  return Dataset(*this, name, std::move(handle), shape, false);
}

void File::create_virtual(const std::string& name, const Shape& shape,
                          View<const VirtualPart> parts) {
  const Lock lock;
  const Handle space = make_space(shape);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE));
  const float missing = std::numeric_limits<float>::quiet_NaN();
  H5Pset_fill_value(creation.id(), H5T_NATIVE_FLOAT, &missing);
  for (const VirtualPart& part : parts) {
    const hsize_t begin[2] = {static_cast<hsize_t>(part.rows.begin),
                              static_cast<hsize_t>(part.columns.begin)};
    const hsize_t size[2] = {static_cast<hsize_t>(part.rows.size()),
                             static_cast<hsize_t>(part.columns.size())};
    check(H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, begin, nullptr, size, nullptr),
          "select a part of", name);
    const Handle source(H5Screate_simple(static_cast<int>(shape.size()), size, nullptr));
    check(H5Pset_virtual(creation.id(), space.id(), part.file.c_str(),
                         escape_pattern(part.dataset).c_str(), source.id()),
          "map a part of", name);
  }
  const Handle groups = intermediate_groups();
  const Handle made(H5Dcreate2(handle_.id(), name.c_str(), H5T_IEEE_F32LE, space.id(), groups.id(),
                               creation.id(), H5P_DEFAULT));
  check(made.id(), "create", name);
}

}  // namespace dlrm::hdf5
