#include "dataset_layout.h"

#include "dlrm/hdf5/file.h"

namespace dlrm {
namespace {

using hdf5::Type;

// Columns of a page or more start on a page boundary, so that a reader may map or read them
// directly.
constexpr int64_t kAlignment = 4096;

/// Creates the datasets of a file and records their extents.
class Creator {
 public:
  Creator(const std::string& path, int64_t samples)
      : file_(hdf5::File::create(path, {kAlignment})),
        blocks_((samples + kChecksumSamples - 1) / kChecksumSamples) {}

  hdf5::File& file() { return file_; }

  hdf5::Dataset column(const std::string& name, Type type, const hdf5::Shape& shape,
                       int64_t width) {
    hdf5::Dataset made = file_.create_dataset(name, type, shape);
    columns_.push_back({made.storage().offset, made.elements() * width});
    const auto sums = file_.create_dataset("/checksums" + name, Type::kUint32, {blocks_});
    sums_.push_back({sums.storage().offset, blocks_ * 4});
    return made;
  }

  std::vector<Extent> close() {
    file_.close();
    columns_.insert(columns_.end(), sums_.begin(), sums_.end());
    return std::move(columns_);
  }

 private:
  hdf5::File file_;
  int64_t blocks_;
  std::vector<Extent> columns_, sums_;
};

void create_feature(Creator& creator, const FeatureColumn& feature, int64_t samples, int64_t ids) {
  const std::string group = "/sparse/" + feature.name;
  const Type type = feature.ids == IdType::kInt32 ? Type::kInt32 : Type::kInt64;
  hdf5::Dataset made = creator.column(group + "/ids", type, {ids}, bytes_of(feature.ids));
  made.set_integer("rows", feature.rows);
  if (feature.hotness > 0) {
    made.set_integer("hotness", feature.hotness);
  } else {
    creator.column(group + "/offsets", Type::kInt64, {samples + 1}, 8);
  }
  if (feature.weighted) creator.column(group + "/weights", Type::kFloat32, {ids}, 4);
}

}  // namespace

size_t column_count(const DatasetLayout& layout) {
  size_t count = first_feature_column(layout);
  for (const FeatureColumn& feature : layout.features) count += column_count(feature);
  return count;
}

std::vector<Extent> create_dataset_file(const std::string& path, const DatasetLayout& layout,
                                        int64_t samples, const std::vector<int64_t>& ids) {
  Creator creator(path, samples);
  creator.file().set_fixed_text("format", "dlrm-dataset");
  creator.file().set_integer("version", 1);
  creator.file().set_integer("samples", samples);
  creator.file().set_integer("checksum_samples", kChecksumSamples);
  const Type label = layout.label == LabelType::kUint8 ? Type::kUint8 : Type::kFloat32;
  hdf5::Shape labels{samples};
  if (layout.labels > 1) labels.push_back(layout.labels);
  creator.column("/label", label, labels, bytes_of(layout.label));
  creator.column("/dense", Type::kFloat32, {samples, layout.dense}, 4);
  if (layout.weighted) creator.column("/weight", Type::kFloat32, {samples}, 4);
  for (size_t f = 0; f < layout.features.size(); ++f) {
    create_feature(creator, layout.features[f], samples, ids[f]);
  }
  if (const std::string& bytes = layout.preprocessing; !bytes.empty()) {
    creator.file()
        .create_dataset("/preprocessing", Type::kUint8, {static_cast<int64_t>(bytes.size())})
        .write(View<const uint8_t>(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  }
  return creator.close();
}

void write_rows_attributes(const std::string& path, const DatasetLayout& layout) {
  hdf5::File file = hdf5::File::open(path, hdf5::File::Access::kReadWrite);
  for (const FeatureColumn& feature : layout.features) {
    file.dataset("/sparse/" + feature.name + "/ids").set_integer("rows", feature.rows);
  }
  file.close();
}

}  // namespace dlrm
