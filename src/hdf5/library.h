#pragma once
#include <mutex>
#include <string>
#include <type_traits>

#include <hdf5.h>

#include "dlrm/hdf5/file.h"

namespace dlrm::hdf5 {

static_assert(std::is_same_v<hid_t, int64_t>, "Handle holds identifiers as int64_t");

/// Holds the library's lock and disables the library's own error output. May be nested.
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  std::lock_guard<std::recursive_mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
};

/// The last failure in the library.
struct Failure {
  std::string reason;       ///< the text of the innermost call
  bool unreadable = false;  ///< the system could not read the file
};
Failure last_failure();

hid_t stored_type(Type type);
Handle make_space(const Shape& shape);

}  // namespace dlrm::hdf5
