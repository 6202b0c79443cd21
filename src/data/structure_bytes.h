#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "dlrm/core/error.h"

#include "dataset_structure.h"

namespace dlrm {

/// Appends values to a text of bytes: numbers as they are in memory, texts and lists after their
/// size.
class Packer {
 public:
  void operator()(int64_t value) { bytes.append(reinterpret_cast<const char*>(&value), 8); }
  void operator()(const std::string& text) {
    (*this)(static_cast<int64_t>(text.size()));
    bytes += text;
  }
  template <class T>
  void resize(std::vector<T>& list) {
    (*this)(static_cast<int64_t>(list.size()));
  }

  std::string bytes;
};

/// Takes the values out again. Throws run_error if there are too few bytes.
class Unpacker {
 public:
  explicit Unpacker(const std::string& bytes) : bytes_(bytes) {}
  void operator()(int64_t& value) { std::memcpy(&value, take(8), 8); }
  void operator()(std::string& text) {
    const size_t size = next_size();
    text.assign(take(size), size);
  }
  template <class T>
  void resize(std::vector<T>& list) {
    list.resize(next_size());
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  /// The size of a text or list, each element of which takes a byte at least.
  size_t next_size() {
    int64_t size = 0;
    (*this)(size);
    if (size < 0 || static_cast<size_t>(size) > bytes_.size() - at_) fail();
    return static_cast<size_t>(size);
  }
  const char* take(size_t size) {
    if (size > bytes_.size() - at_) fail();
    const char* begin = bytes_.data() + at_;
    at_ += size;
    return begin;
  }
  [[noreturn]] static void fail() { throw run_error("a child process sent too few bytes"); }

  const std::string& bytes_;
  size_t at_ = 0;
};

template <class Stream, class Enum>
void visit_enum(Stream& stream, Enum& value) {
  auto number = static_cast<int64_t>(value);
  stream(number);
  value = static_cast<Enum>(number);
}

template <class Stream>
void visit(Stream& stream, StoredColumn& column) {
  stream(column.offset);
  stream(column.sums);
}

template <class Stream>
void visit(Stream& stream, DatasetStructure& structure) {
  stream(structure.samples);
  stream(structure.checksum_samples);
  visit_enum(stream, structure.label_type);
  stream(structure.num_labels);
  visit(stream, structure.labels);
  visit_enum(stream, structure.weighted);
  visit(stream, structure.weights);
  stream(structure.dense_width);
  visit(stream, structure.dense);
  stream(structure.preprocessing_bytes);
  visit(stream, structure.preprocessing);
  stream.resize(structure.features);
  for (StoredFeature& feature : structure.features) {
    stream(feature.name);
    stream(feature.rows);
    stream(feature.hotness);
    visit_enum(stream, feature.type);
    stream(feature.count);
    visit(stream, feature.ids);
    visit(stream, feature.offsets);
    visit_enum(stream, feature.weighted);
    visit(stream, feature.weights);
  }
}

/// Throws run_error if no StructureReader makes such a structure. What the HDF5 library did to its
/// process may show in what that process sends.
void check_structure(const DatasetStructure& structure);

}  // namespace dlrm
