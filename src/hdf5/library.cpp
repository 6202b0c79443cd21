#include "library.h"

namespace dlrm::hdf5 {
namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  // At exit, HDF5 1.10 crashes in a file whose close failed because the disk was full. Every file
  // is closed before. This must precede the first call of the library.
  [[maybe_unused]] static const herr_t no_cleanup = H5dont_atexit();
  return mutex;
}

herr_t keep_innermost(unsigned, const H5E_error2_t* error, void* failure) {
  *static_cast<Failure*>(failure) = {error->desc,
                                     error->maj_num == H5E_IO && error->min_num == H5E_READERROR};
  return 0;
}

/// Errors of the system come with times, addresses and the system's own text, in several lines, of
/// which only that text is wanted.
std::string shortened(const std::string& text) {
  const std::string key = "error message = '";
  const size_t begin = text.find(key);
  if (begin == std::string::npos) return text;
  const size_t from = begin + key.size();
  return text.substr(0, text.find_first_of(":,")) + ": " +
         text.substr(from, text.find('\'', from) - from);
}

}  // namespace

Lock::Lock() : lock_(library_mutex()) {
  H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Lock::~Lock() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }

Failure last_failure() {
  Failure failure;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_innermost, &failure);
  failure.reason = shortened(failure.reason);
  return failure;
}

Handle::~Handle() {
  if (id_ < 0) return;
  const Lock lock;
  H5Idec_ref(id_);
}

hid_t stored_type(Type type) {
  switch (type) {
    case Type::kUint8:
      return H5T_STD_U8LE;
    case Type::kUint32:
      return H5T_STD_U32LE;
    case Type::kInt32:
      return H5T_STD_I32LE;
    case Type::kInt64:
      return H5T_STD_I64LE;
    case Type::kFloat32:
      return H5T_IEEE_F32LE;
  }
  return H5I_INVALID_HID;
}

Handle make_space(const Shape& shape) {
  const std::vector<hsize_t> extent(shape.begin(), shape.end());
  return Handle(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr));
}

}  // namespace dlrm::hdf5
