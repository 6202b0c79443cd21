#include "structure_reader.h"

#include <bit>

#include <fmt/format.h>

#include "dlrm/core/error.h"
#include "dlrm/core/printable.h"

namespace dlrm {
namespace {

using hdf5::Storage;
using hdf5::Type;

/// Larger than any file, and small enough that products of two such numbers fit.
constexpr int64_t kLongestDimension = int64_t{1} << 48;

std::string shape_text(const hdf5::Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

hdf5::File open_file(const std::string& path) {
  std::optional<hdf5::File> file = hdf5::File::try_open(path);
  if (!file) throw usage_error("{}: not an HDF5 file, or a damaged one", path);
  return std::move(*file);
}

}  // namespace

StructureReader::StructureReader(const std::string& path) : path_(path), file_(open_file(path)) {}

DatasetStructure StructureReader::read() {
  read_root();
  read_samples();
  if (!file_.exists("/sparse")) return std::move(out_);
  const auto features = file_.names_in("/sparse");
  if (!features) throw usage_error("{}: cannot list /sparse (it must be a group)", path_);
  for (const std::string& name : *features) {
    if (has_control_character(name)) {
      throw usage_error("{}: the name of a feature in /sparse has a control character", path_);
    }
    read_feature(name);
  }
  return std::move(out_);
}

void StructureReader::read_root() {
  if (file_.text("format") != "dlrm-dataset") {
    throw usage_error("{}: not a dataset: its root has no attribute format = \"dlrm-dataset\"",
                      path_);
  }
  const int64_t version = integer_attribute(file_, "version");
  if (version != 1) {
    throw usage_error("{}: dataset version {}; this program reads version 1", path_, version);
  }
  out_.samples = integer_attribute(file_, "samples");
  if (out_.samples < 0) {
    throw usage_error("{}: attribute samples is {}", path_, out_.samples);
  }
  if (!file_.has_attribute("checksum_samples")) return;
  const int64_t block = integer_attribute(file_, "checksum_samples");
  if (block < 1 || block > kLongestDimension ||
      !std::has_single_bit(static_cast<uint64_t>(block))) {
    throw usage_error("{}: attribute checksum_samples is {}; it must be a power of 2", path_,
                      block);
  }
  out_.checksum_samples = block;
}

void StructureReader::read_samples() {
  read_labels();
  if (file_.exists("/weight")) read_weights();
  read_dense();
  if (file_.exists("/preprocessing")) read_preprocessing();
}

void StructureReader::read_preprocessing() {
  const hdf5::Dataset bytes = find("/preprocessing", 1);
  if (bytes.type() != Type::kUint8) throw usage_error("{}: /preprocessing must hold uint8", path_);
  out_.preprocessing_bytes = bytes.shape()[0];
  out_.preprocessing.offset = offset_of(bytes);
}

void StructureReader::read_labels() {
  const hdf5::Dataset label = find("/label");
  const hdf5::Shape& shape = label.shape();
  if (shape.empty() || shape.size() > 2 || (shape.size() == 2 && shape[1] == 0)) {
    throw usage_error("{}: /label has shape {}; it must be [samples] or [samples, labels]", path_,
                      shape_text(shape));
  }
  const auto type = label.type();
  if (type != Type::kUint8 && type != Type::kFloat32) {
    throw usage_error("{}: /label must hold uint8 or float32", path_);
  }
  out_.label_type = type == Type::kUint8 ? LabelType::kUint8 : LabelType::kFloat32;
  check_one_each(label);
  if (shape.size() == 2) out_.num_labels = shape[1];
  out_.labels = locate(label);
}

void StructureReader::read_weights() {
  const hdf5::Dataset weight = find("/weight", 1);
  if (weight.type() != Type::kFloat32) throw usage_error("{}: /weight must hold float32", path_);
  check_one_each(weight);
  out_.weighted = true;
  out_.weights = locate(weight);
}

void StructureReader::check_one_each(const hdf5::Dataset& dataset) const {
  const int64_t elements = dataset.shape()[0];
  if (elements == out_.samples) return;
  throw usage_error("{}: {} has {} elements, attribute samples says {}", path_, dataset.name(),
                    elements, out_.samples);
}

void StructureReader::read_dense() {
  const hdf5::Dataset dense = find("/dense", 2);
  if (dense.type() != Type::kFloat32) {
    throw usage_error("{}: /dense must hold float32", path_);
  }
  if (dense.shape()[0] != out_.samples) {
    throw usage_error("{}: /dense has shape {}, its first dimension must be {} (samples)", path_,
                      shape_text(dense.shape()), out_.samples);
  }
  out_.dense_width = dense.shape()[1];
  out_.dense = locate(dense);
}

void StructureReader::read_feature(const std::string& name) {
  const std::string group = "/sparse/" + name;
  const hdf5::Dataset ids = find(group + "/ids", 1);
  StoredFeature feature;
  feature.name = name;
  feature.type = id_type(ids);
  feature.count = ids.shape()[0];
  feature.ids = locate(ids);
  feature.rows = integer_attribute(ids, "rows");
  if (feature.rows < 0) {
    throw usage_error("{}: {}: attribute rows is {}", path_, ids.name(), feature.rows);
  }
  const bool offsets = file_.exists(group + "/offsets");
  const bool hotness = ids.has_attribute("hotness");
  if (offsets == hotness) {
    throw usage_error("{}: {} must have either attribute hotness on its ids or offsets{}", path_,
                      group, offsets ? ", not both" : "");
  }
  if (offsets) {
    read_offsets(feature, group);
  } else {
    feature.hotness = integer_attribute(ids, "hotness");
    if (feature.hotness < 1 || feature.count % feature.hotness != 0 ||
        feature.count / feature.hotness != out_.samples) {
      throw usage_error("{}: {} holds {} ids; {} samples of hotness {} need another number", path_,
                        ids.name(), feature.count, out_.samples, feature.hotness);
    }
  }
  if (file_.exists(group + "/weights")) read_weights(feature, group);
  out_.features.push_back(std::move(feature));
}

void StructureReader::read_weights(StoredFeature& feature, const std::string& group) {
  const hdf5::Dataset weights = find(group + "/weights", 1);
  if (weights.type() != Type::kFloat32) {
    throw usage_error("{}: {} must hold float32", path_, weights.name());
  }
  if (weights.shape()[0] != feature.count) {
    throw usage_error("{}: {} has {} elements, one for each of {} ids is needed", path_,
                      weights.name(), weights.shape()[0], feature.count);
  }
  feature.weighted = true;
  feature.weights = locate(weights);
}

void StructureReader::read_offsets(StoredFeature& feature, const std::string& group) {
  const hdf5::Dataset offsets = find(group + "/offsets", 1);
  if (offsets.type() != Type::kInt64) {
    throw usage_error("{}: {} must hold int64", path_, offsets.name());
  }
  if (offsets.shape()[0] - 1 != out_.samples) {
    throw usage_error("{}: {} has {} elements, samples + 1 = {} are needed", path_, offsets.name(),
                      offsets.shape()[0], out_.samples + 1);
  }
  feature.offsets = locate(offsets);
}

hdf5::Dataset StructureReader::find(const std::string& name, size_t dimensions) const {
  hdf5::Dataset found = find(name);
  if (found.shape().size() == dimensions) return found;
  throw usage_error("{}: {} has {} dimensions, {} needed", path_, name, found.shape().size(),
                    dimensions);
}

hdf5::Dataset StructureReader::find(const std::string& name) const {
  std::optional<hdf5::Dataset> found = file_.find_dataset(name);
  if (!found) throw usage_error("{}: there is no dataset {}", path_, name);
  for (const int64_t length : found->shape()) {
    if (length < 0 || length > kLongestDimension) {
      throw usage_error("{}: {} is damaged", path_, name);
    }
  }
  return std::move(*found);
}

StoredColumn StructureReader::locate(const hdf5::Dataset& dataset) const {
  return {offset_of(dataset), out_.checksum_samples > 0 ? sums_of(dataset) : -1};
}

int64_t StructureReader::sums_of(const hdf5::Dataset& dataset) const {
  const hdf5::Dataset sums = find("/checksums" + dataset.name(), 1);
  const int64_t blocks = (out_.samples + out_.checksum_samples - 1) / out_.checksum_samples;
  if (sums.type() != Type::kUint32 || sums.shape()[0] != blocks) {
    throw usage_error("{}: {} must hold {} numbers uint32, one for each block of {} samples", path_,
                      sums.name(), blocks, out_.checksum_samples);
  }
  return offset_of(sums);
}

int64_t StructureReader::offset_of(const hdf5::Dataset& dataset) const {
  for (const int64_t length : dataset.shape()) {
    if (length == 0) return -1;
  }
  const Storage storage = dataset.storage();
  switch (storage.kind) {
    case Storage::Kind::kContiguous:
      return storage.offset;
    case Storage::Kind::kOther:
      throw usage_error(
          "{}: {} must be contiguous and uncompressed ('h5repack -l CONTI -f NONE IN OUT' makes it "
          "so)",
          path_, dataset.name());
    case Storage::Kind::kOtherFile:
      throw usage_error("{}: {} lies in another file", path_, dataset.name());
    case Storage::Kind::kNone:
      throw usage_error("{}: {} was never written", path_, dataset.name());
  }
  return -1;
}

IdType StructureReader::id_type(const hdf5::Dataset& dataset) const {
  const auto type = dataset.type();
  if (type == Type::kInt32) return IdType::kInt32;
  if (type == Type::kInt64) return IdType::kInt64;
  throw usage_error("{}: {} must hold int32 or int64", path_, dataset.name());
}

int64_t StructureReader::integer_attribute(const hdf5::Object& object, const char* name) const {
  const auto value = object.integer(name);
  if (value) return *value;
  if (!object.has_attribute(name)) {
    throw usage_error("{}: {} has no attribute {}", path_, object.name(), name);
  }
  throw usage_error("{}: {}: attribute {} must be one integer", path_, object.name(), name);
}

}  // namespace dlrm
