#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include <hdf5.h>

#include "dlrm/data/hdf5_mutex.h"

namespace dlrm {

/// The right to call HDF5, with the library's own error printing off: errors are told by ours.
class Hdf5Session {
 public:
  Hdf5Session() : lock_(hdf5_mutex()) {
    H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Hdf5Session() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }
  Hdf5Session(const Hdf5Session&) = delete;
  Hdf5Session& operator=(const Hdf5Session&) = delete;

 private:
  std::lock_guard<std::mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
};

/// Owns an HDF5 identifier of any kind.
class H5Id {
 public:
  H5Id() = default;
  explicit H5Id(hid_t id) : id_(id) {}
  H5Id(H5Id&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  H5Id& operator=(H5Id&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~H5Id() {
    if (id_ >= 0) H5Idec_ref(id_);
  }
  operator hid_t() const { return id_; }
  bool ok() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
};

}  // namespace dlrm
