#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlrm/core/partition.h"
#include "dlrm/core/view.h"

/// HDF5 files. The serial library is not thread-safe: every call here takes one lock of the
/// process, so files may be used from any thread. A failure is a run_error that names the file, the
/// object and the library's reason. So is a question about the file if the system cannot read it.
namespace dlrm::hdf5 {

/// Element types, stored little-endian.
enum class Type { kUint8, kUint32, kInt32, kInt64, kFloat32 };

using Shape = std::vector<int64_t>;

/// Owns an identifier of the library.
class Handle {
 public:
  Handle() = default;
  explicit Handle(int64_t id) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle();
  int64_t id() const { return id_; }
  bool ok() const { return id_ >= 0; }
  int64_t release() { return std::exchange(id_, -1); }

 private:
  int64_t id_ = -1;
};

/// An object with attributes: a file (its root group) or a dataset.
class Object {
 public:
  const std::string& path() const { return path_; }  ///< of the file
  const std::string& name() const { return name_; }  ///< "/" for a file

  bool has_attribute(const std::string& name) const;
  /// The value of a scalar attribute, or of one with a single element. Empty if there is no such
  /// attribute or if it has another type. Integers may have any width, texts fixed or variable
  /// length.
  std::optional<int64_t> integer(const std::string& name) const;
  std::optional<uint64_t> unsigned_integer(const std::string& name) const;
  std::optional<std::string> text(const std::string& name) const;

  /// Creates the attribute, or overwrites an integer.
  void set_integer(const std::string& name, int64_t value);
  void set_unsigned_integer(const std::string& name, uint64_t value);
  void set_text(const std::string& name, const std::string& value);        ///< of variable length
  void set_fixed_text(const std::string& name, const std::string& value);  ///< not empty

 protected:
  Object(std::string path, std::string name, Handle handle)
      : path_(std::move(path)), name_(std::move(name)), handle_(std::move(handle)) {}
  /// Throws if the library's `result` is negative.
  void check(int64_t result, const char* what, const std::string& name) const;
  /// False if the library's `result` is negative. Throws if that is because the system cannot read
  /// the file. Call it before anything else of the library.
  bool succeeded(int64_t result, const char* what, const std::string& name) const;

  std::string path_;
  std::string name_;
  Handle handle_;

 private:
  /// Opens an attribute that is one text or one integer. Otherwise returns a handle that is not ok.
  Handle open_single(const std::string& name, bool text) const;
  void write_attribute(const std::string& name, int64_t type, const void* value);
};

/// Where the elements of a dataset are stored.
struct Storage {
  enum class Kind {
    kContiguous,
    kOther,      ///< chunked, compact, virtual, or in external files
    kOtherFile,  ///< reached through a link to another HDF5 file
    kNone,       ///< contiguous, but never written or without elements
  };
  Kind kind = Kind::kNone;
  int64_t offset = 0;  ///< of kContiguous, in bytes from the start of the file
};

class Dataset : public Object {
 public:
  const Shape& shape() const { return shape_; }
  int64_t elements() const;
  /// Empty for a type not listed in Type, or for another byte order.
  std::optional<Type> type() const;
  Storage storage() const;
  /// Bytes stored in the file. Less than the elements need if some were not written.
  int64_t stored_bytes() const;

  /// All elements, converted to T: uint8_t, uint32_t or int64_t. What is no number or damaged is a
  /// usage_error.
  template <class T>
  std::vector<T> read() const {
    std::vector<T> values(static_cast<size_t>(elements()));
    if (!values.empty()) read_as(type_of<T>(), values.data());
    return values;
  }
  template <class T>
  void write(View<const T> values) {
    if (values.size() > 0) write_as(type_of<T>(), values.data());
  }

 private:
  friend class File;
  Dataset(const Object& file, const std::string& name, Handle handle, Shape shape, bool elsewhere)
      : Object(file.path(), name, std::move(handle)),
        shape_(std::move(shape)),
        elsewhere_(elsewhere) {}

  template <class T>
  static constexpr Type type_of() {
    if constexpr (std::is_same_v<T, uint8_t>) return Type::kUint8;
    if constexpr (std::is_same_v<T, uint32_t>) return Type::kUint32;
    static_assert(std::is_same_v<T, uint8_t> || std::is_same_v<T, uint32_t> ||
                  std::is_same_v<T, int64_t>);
    return Type::kInt64;
  }
  void read_as(Type type, void* out) const;
  void write_as(Type type, const void* values);

  Shape shape_;
  bool elsewhere_;  // in another file
};

/// A rectangle of a virtual dataset, and the float32 dataset of the same shape that holds it. For a
/// virtual dataset of one dimension `columns` is [0, 1).
struct VirtualPart {
  Range rows;
  Range columns;
  std::string file;  ///< a relative name is looked for in the folder of the virtual dataset's file
  std::string dataset;
};

struct CreateOptions {
  int64_t alignment = 1;   ///< datasets of as many bytes or more begin at a multiple of it
  bool checksums = false;  ///< the format of HDF5 1.10: checksummed metadata, virtual datasets
  bool lock = true;        ///< lock the file against other processes
};

class File : public Object {
 public:
  enum class Access { kRead, kReadWrite };
  /// Creates a file. Replaces a file that exists at `path`.
  static File create(const std::string& path, const CreateOptions& options = {});
  /// Creates a file in memory, for image(). `path` is only a name.
  static File create_in_memory(const std::string& path);
  /// Opens without locking the file for reading, because some file systems have no locks.
  static File open(const std::string& path, Access access = Access::kRead);
  /// Opens for reading. Returns no value if it is not an HDF5 file, or a damaged one.
  static std::optional<File> try_open(const std::string& path);

  /// Flushes and closes the file. The destructor does the same and ignores errors.
  void close();
  /// The bytes of the file so far.
  std::vector<char> image();

  /// True if the object and the groups above it exist.
  bool exists(const std::string& name) const;
  /// Names in a group, sorted. Empty if it is not a group.
  std::optional<std::vector<std::string>> names_in(const std::string& group) const;

  /// Returns no value if there is no such dataset.
  std::optional<Dataset> find_dataset(const std::string& name) const;
  Dataset dataset(const std::string& name) const;
  /// Creates a contiguous dataset and the groups above it. Its space is allocated at once and not
  /// filled. Equal calls give equal bytes: no times are stored.
  Dataset create_dataset(const std::string& name, Type type, const Shape& shape);
  /// Creates a float32 dataset of one or two dimensions that shows `parts`. Elements are NaN if no
  /// part covers them or the part's file is missing. Needs CreateOptions::checksums.
  void create_virtual(const std::string& name, const Shape& shape, View<const VirtualPart> parts);

 private:
  using Object::Object;
};

}  // namespace dlrm::hdf5
