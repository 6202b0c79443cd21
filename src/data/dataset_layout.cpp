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
  explicit Creator(const std::string& path) : file_(hdf5::File::create(path, {kAlignment})) {}

  hdf5::File& file() { return file_; }

  hdf5::Dataset dataset(const std::string& name, Type type, const hdf5::Shape& shape,
                        int64_t width) {
    hdf5::Dataset made = file_.create_dataset(name, type, shape);
    extents_.push_back({made.storage().offset, made.elements() * width});
    return made;
  }

  std::vector<Extent> close() {
    file_.close();
    return std::move(extents_);
  }

 private:
  hdf5::File file_;
  std::vector<Extent> extents_;
};

void create_feature(Creator& creator, const FeatureColumn& feature, int64_t samples, int64_t ids) {
  const std::string group = "/sparse/" + feature.name;
  const Type type = feature.ids == IdType::kInt32 ? Type::kInt32 : Type::kInt64;
  hdf5::Dataset made = creator.dataset(group + "/ids", type, {ids}, bytes_of(feature.ids));
  made.set_integer("rows", feature.rows);
  if (feature.hotness > 0) {
    made.set_integer("hotness", feature.hotness);
    return;
  }
  creator.dataset(group + "/offsets", Type::kInt64, {samples + 1}, 8);
}

}  // namespace

size_t column_count(const DatasetLayout& layout) {
  size_t count = 2;
  for (const FeatureColumn& feature : layout.features) count += feature.hotness > 0 ? 1 : 2;
  return count;
}

std::vector<Extent> create_dataset_file(const std::string& path, const DatasetLayout& layout,
                                        int64_t samples, const std::vector<int64_t>& ids) {
  Creator creator(path);
  creator.file().set_fixed_text("format", "dlrm-dataset");
  creator.file().set_integer("version", 1);
  creator.file().set_integer("samples", samples);
  const Type label = layout.label == LabelType::kUint8 ? Type::kUint8 : Type::kFloat32;
  creator.dataset("/label", label, {samples}, bytes_of(layout.label));
  creator.dataset("/dense", Type::kFloat32, {samples, layout.dense}, 4);
  for (size_t f = 0; f < layout.features.size(); ++f) {
    create_feature(creator, layout.features[f], samples, ids[f]);
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
