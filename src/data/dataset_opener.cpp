#include "dataset_opener.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "dlrm/core/error.h"
#include "dlrm/core/file.h"

namespace dlrm {
namespace {

using hdf5::Storage;
using hdf5::Type;

/// Larger than any file, and small enough that products of two such numbers fit.
constexpr int64_t kLongestDimension = int64_t{1} << 48;

std::string shape_text(const hdf5::Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace

void DatasetOpener::open() {
  read_root();
  read_samples();
  if (!file_.exists("/sparse")) return;
  const auto features = file_.names_in("/sparse");
  if (!features) throw usage_error("{}: cannot list /sparse (it must be a group)", out_.path_);
  for (const std::string& name : *features) read_feature(name);
}

hdf5::File DatasetOpener::open_file(DatasetFile& out) {
  const std::string& path = out.path_;
  const auto mapped = File::try_open(path, File::Mode::kRead);
  struct stat status {};
  if (!mapped || fstat(mapped->descriptor(), &status) != 0) {
    throw usage_error("{}: cannot open the dataset: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) throw usage_error("{}: not a file", path);
  std::optional<hdf5::File> file = hdf5::File::try_open(path);
  if (!file) throw usage_error("{}: not an HDF5 file, or a damaged one", path);
  out.mapped_bytes_ = static_cast<size_t>(status.st_size);
  void* mapping = mmap(nullptr, out.mapped_bytes_, PROT_READ, MAP_SHARED, mapped->descriptor(), 0);
  if (mapping == MAP_FAILED) throw run_error("{}: cannot map: {}", path, std::strerror(errno));
  out.mapping_ = mapping;
  return std::move(*file);
}

void DatasetOpener::read_root() {
  if (file_.text("format") != "dlrm-dataset") {
    throw usage_error("{}: not a dataset: its root has no attribute format = \"dlrm-dataset\"",
                      out_.path_);
  }
  const int64_t version = integer_attribute(file_, "version");
  if (version != 1) {
    throw usage_error("{}: dataset version {}; this program reads version 1", out_.path_, version);
  }
  out_.samples_ = integer_attribute(file_, "samples");
  if (out_.samples_ < 0) {
    throw usage_error("{}: attribute samples is {}", out_.path_, out_.samples_);
  }
}

void DatasetOpener::read_samples() {
  const hdf5::Dataset label = find("/label", 1);
  const auto type = label.type();
  if (type != Type::kUint8 && type != Type::kFloat32) {
    throw usage_error("{}: /label must hold uint8 or float32", out_.path_);
  }
  out_.label_type_ = type == Type::kUint8 ? LabelType::kUint8 : LabelType::kFloat32;
  if (label.shape()[0] != out_.samples_) {
    throw usage_error("{}: /label has {} elements, attribute samples says {}", out_.path_,
                      label.shape()[0], out_.samples_);
  }
  out_.labels_ = map(label, bytes_of(out_.label_type_));
  const hdf5::Dataset dense = find("/dense", 2);
  if (dense.type() != Type::kFloat32) {
    throw usage_error("{}: /dense must hold float32", out_.path_);
  }
  if (dense.shape()[0] != out_.samples_) {
    throw usage_error("{}: /dense has shape {}, its first dimension must be {} (samples)",
                      out_.path_, shape_text(dense.shape()), out_.samples_);
  }
  out_.dense_width_ = dense.shape()[1];
  out_.dense_ = map(dense, 4);
}

void DatasetOpener::read_feature(const std::string& name) {
  const std::string group = "/sparse/" + name;
  const hdf5::Dataset ids = find(group + "/ids", 1);
  MappedFeature feature;
  feature.name = name;
  feature.type = id_type(ids);
  feature.count = ids.shape()[0];
  feature.ids = map(ids, bytes_of(feature.type));
  feature.rows = integer_attribute(ids, "rows");
  if (feature.rows < 0) {
    throw usage_error("{}: {}: attribute rows is {}", out_.path_, ids.name(), feature.rows);
  }
  const bool offsets = file_.exists(group + "/offsets");
  const bool hotness = ids.has_attribute("hotness");
  if (offsets == hotness) {
    throw usage_error("{}: {} must have either attribute hotness on its ids or offsets{}",
                      out_.path_, group, offsets ? ", not both" : "");
  }
  if (offsets) {
    read_offsets(feature, group);
  } else {
    feature.hotness = integer_attribute(ids, "hotness");
    if (feature.hotness < 1 || feature.count % feature.hotness != 0 ||
        feature.count / feature.hotness != out_.samples_) {
      throw usage_error("{}: {} holds {} ids; {} samples of hotness {} need another number",
                        out_.path_, ids.name(), feature.count, out_.samples_, feature.hotness);
    }
  }
  out_.features_.push_back(std::move(feature));
}

void DatasetOpener::read_offsets(MappedFeature& feature, const std::string& group) {
  const hdf5::Dataset offsets = find(group + "/offsets", 1);
  if (offsets.type() != Type::kInt64) {
    throw usage_error("{}: {} must hold int64", out_.path_, offsets.name());
  }
  if (offsets.shape()[0] - 1 != out_.samples_) {
    throw usage_error("{}: {} has {} elements, samples + 1 = {} are needed", out_.path_,
                      offsets.name(), offsets.shape()[0], out_.samples_ + 1);
  }
  feature.offsets = map(offsets, 8);
  int64_t first = 0, last = 0;
  std::memcpy(&first, feature.offsets, 8);
  std::memcpy(&last, feature.offsets + out_.samples_ * 8, 8);
  if (first != 0 || last != feature.count) {
    throw usage_error("{}: {} goes from {} to {}; it must go from 0 to the number of ids, {}",
                      out_.path_, offsets.name(), first, last, feature.count);
  }
}

hdf5::Dataset DatasetOpener::find(const std::string& name, size_t dimensions) const {
  std::optional<hdf5::Dataset> found = file_.find_dataset(name);
  if (!found) throw usage_error("{}: there is no dataset {}", out_.path_, name);
  const hdf5::Shape& shape = found->shape();
  if (shape.size() != dimensions) {
    throw usage_error("{}: {} has {} dimensions, {} needed", out_.path_, name, shape.size(),
                      dimensions);
  }
  for (const int64_t length : shape) {
    if (length < 0 || length > kLongestDimension) {
      throw usage_error("{}: {} is damaged", out_.path_, name);
    }
  }
  return std::move(*found);
}

const std::byte* DatasetOpener::map(const hdf5::Dataset& dataset, int64_t width) const {
  __int128 bytes = width;
  for (const int64_t length : dataset.shape()) bytes *= length;
  if (bytes == 0) return nullptr;
  const Storage storage = dataset.storage();
  switch (storage.kind) {
    case Storage::Kind::kContiguous:
      break;
    case Storage::Kind::kOther:
      throw usage_error(
          "{}: {} must be contiguous and uncompressed ('h5repack -l CONTI -f NONE IN OUT' makes it "
          "so)",
          out_.path_, dataset.name());
    case Storage::Kind::kOtherFile:
      throw usage_error("{}: {} lies in another file", out_.path_, dataset.name());
    case Storage::Kind::kNone:
      throw usage_error("{}: {} was never written", out_.path_, dataset.name());
  }
  const auto offset = static_cast<uint64_t>(storage.offset);
  if (offset > out_.mapped_bytes_ || bytes > static_cast<__int128>(out_.mapped_bytes_ - offset)) {
    throw usage_error("{}: {} goes beyond the end of the file (cut short?)", out_.path_,
                      dataset.name());
  }
  return static_cast<const std::byte*>(out_.mapping_) + offset;
}

IdType DatasetOpener::id_type(const hdf5::Dataset& dataset) const {
  const auto type = dataset.type();
  if (type == Type::kInt32) return IdType::kInt32;
  if (type == Type::kInt64) return IdType::kInt64;
  throw usage_error("{}: {} must hold int32 or int64", out_.path_, dataset.name());
}

int64_t DatasetOpener::integer_attribute(const hdf5::Object& object, const char* name) const {
  const auto value = object.integer(name);
  if (value) return *value;
  if (!object.has_attribute(name)) {
    throw usage_error("{}: {} has no attribute {}", out_.path_, object.name(), name);
  }
  throw usage_error("{}: {}: attribute {} must be one integer", out_.path_, object.name(), name);
}

}  // namespace dlrm
