#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <hdf5.h>

namespace dlrm {

/// An HDF5 identifier, closed with its owner.
class H5Handle {
 public:
  H5Handle() = default;
  H5Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  H5Handle(H5Handle&& other) noexcept { swap(other); }
  H5Handle& operator=(H5Handle&& other) noexcept {
    H5Handle(std::move(other)).swap(*this);
    return *this;
  }
  ~H5Handle() {
    if (id_ >= 0) close_(id_);
  }
  hid_t get() const { return id_; }
  /// Closes now; false where that failed (a file's last metadata could not be written).
  bool close() { return close_(std::exchange(id_, H5I_INVALID_HID)) >= 0; }

 private:
  void swap(H5Handle& other) {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
  }
  hid_t id_ = H5I_INVALID_HID;
  herr_t (*close_)(hid_t) = nullptr;
};

/// An HDF5 file of a checkpoint: what is written to and read from it besides the tensors' data.
/// Every failure is a run_error naming the file and the object.
class H5File {
 public:
  static H5File create(const std::string& path);
  static H5File open(const std::string& path);
  void close();
  hid_t id() const { return file_.get(); }
  const std::string& path() const { return path_; }

  /// An empty contiguous float32 dataset, allocated at once, its groups made on the way. Returns
  /// the byte offset of its data in the file (0 where it has no elements).
  int64_t create_floats(const std::string& name, const std::vector<int64_t>& shape);

  void write_integers(const std::string& name, const std::vector<int64_t>& values);
  std::vector<int64_t> read_integers(const std::string& name) const;

  void set_attribute(const std::string& name, int64_t value);
  void set_attribute(const std::string& name, uint64_t value);
  void set_attribute(const std::string& name, const std::string& value);
  int64_t integer_attribute(const std::string& name) const;
  uint64_t unsigned_attribute(const std::string& name) const;
  std::string text_attribute(const std::string& name) const;

  /// Throws where `id` says that HDF5 failed to `what` the object `name`.
  H5Handle check(hid_t id, herr_t (*close)(hid_t), const char* what, const std::string& name) const;
  void check(herr_t status, const char* what, const std::string& name) const;

 private:
  H5File(std::string path, H5Handle file) : path_(std::move(path)), file_(std::move(file)) {}
  void set_scalar(const std::string& name, hid_t type, const void* value);
  void get_scalar(const std::string& name, hid_t type, void* value) const;

  std::string path_;
  H5Handle file_;
};

/// Dataspace of this shape.
H5Handle simple_space(const std::vector<int64_t>& shape);
/// Link creation properties that make the groups on the way.
H5Handle intermediate_groups();

}  // namespace dlrm
