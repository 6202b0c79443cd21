#include "dlrm/data/dataset_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "dlrm/core/error.h"

#include "dataset_structure.h"
#include "mapped_file.h"

namespace dlrm {
namespace {

/// Appends the file, or the files of a folder.
void add_files(const std::string& path, std::vector<std::string>& all) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    all.push_back(path);
    return;
  }
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    const std::string extension = entry.path().extension().string();
    const bool hidden = entry.path().filename().string().front() == '.';
    if (!hidden && (extension == ".h5" || extension == ".hdf5")) files.push_back(entry.path());
  }
  if (files.empty()) throw usage_error("{}: a folder without *.h5 or *.hdf5 files", path);
  std::sort(files.begin(), files.end());
  all.insert(all.end(), files.begin(), files.end());
}

void check_alike(const DatasetFile& first, const DatasetFile& other) {
  const auto differ = [&](const std::string& what) {
    return usage_error("{} and {} do not belong together: {} differs", first.path(), other.path(),
                       what);
  };
  if (first.dense_width() != other.dense_width()) throw differ("the width of /dense");
  if (first.num_labels() != other.num_labels()) throw differ("the number of labels");
  if (first.label_type() != other.label_type()) throw differ("the type of /label");
  if (first.weighted() != other.weighted()) {
    throw usage_error("{} and {} do not belong together: only {} has /weight", first.path(),
                      other.path(), (first.weighted() ? first : other).path());
  }
  if (first.features().size() != other.features().size()) throw differ("the number of features");
  for (size_t f = 0; f < first.features().size(); ++f) {
    const MappedFeature& a = first.features()[f];
    const MappedFeature& b = other.features()[f];
    if (a.name != b.name) throw differ("the set of features (" + a.name + ", " + b.name + ")");
    if (a.hotness != b.hotness) throw differ("the hotness of feature " + a.name);
    if (a.weighted != b.weighted) {
      throw usage_error("{} and {} do not belong together: only {} has /sparse/{}/weights",
                        first.path(), other.path(), (a.weighted ? first : other).path(), a.name);
    }
    if (a.type != b.type) throw differ("the type of the ids of feature " + a.name);
  }
}

/// Finds the columns of a structure in its mapped file.
class Columns {
 public:
  Columns(const MappedFile& file, const DatasetStructure& structure)
      : file_(file), structure_(structure) {}

  const std::byte* find(const std::string& name, const StoredColumn& column, int64_t elements,
                        int64_t bytes) const {
    return file_.column(name, column.offset, elements, bytes);
  }

  const std::byte* sums(const std::string& name, const StoredColumn& column, int64_t blocks) const {
    return file_.column("/checksums" + name, column.sums, blocks, 4);
  }

  MappedFeature feature(const StoredFeature& stored, int64_t blocks) const {
    const std::string ids = "/sparse/" + stored.name + "/ids";
    const std::string offsets = "/sparse/" + stored.name + "/offsets";
    MappedFeature mapped{stored.name, stored.rows, stored.hotness, stored.type, stored.count};
    mapped.ids = find(ids, stored.ids, stored.count, bytes_of(stored.type));
    mapped.id_sums = sums(ids, stored.ids, blocks);
    if (stored.weighted) {
      const std::string weights = "/sparse/" + stored.name + "/weights";
      mapped.weighted = true;
      mapped.weights = find(weights, stored.weights, stored.count, 4);
      mapped.weight_sums = sums(weights, stored.weights, blocks);
    }
    if (stored.hotness > 0) return mapped;
    mapped.offsets = find(offsets, stored.offsets, structure_.samples + 1, 8);
    mapped.offset_sums = sums(offsets, stored.offsets, blocks);
    check_ends(mapped, offsets);
    return mapped;
  }

 private:
  void check_ends(const MappedFeature& feature, const std::string& name) const {
    int64_t first = 0, last = 0;
    std::memcpy(&first, feature.offsets, 8);
    std::memcpy(&last, feature.offsets + structure_.samples * 8, 8);
    if (first == 0 && last == feature.count) return;
    file_.check_whole();
    throw usage_error("{}: {} goes from {} to {}; it must go from 0 to the number of ids, {}",
                      file_.path(), name, first, last, feature.count);
  }

  const MappedFile& file_;
  const DatasetStructure& structure_;
};

}  // namespace

DatasetFile::DatasetFile(const std::string& path)
    : DatasetFile(std::make_unique<MappedFile>(path), read_structures({path}).front()) {}

DatasetFile::DatasetFile(std::unique_ptr<MappedFile> file, const DatasetStructure& structure)
    : file_(std::move(file)),
      samples_(structure.samples),
      checksum_samples_(structure.checksum_samples),
      dense_width_(structure.dense_width),
      label_type_(structure.label_type),
      num_labels_(structure.num_labels),
      weighted_(structure.weighted) {
  const Columns columns(*file_, structure);
  labels_ = columns.find("/label", structure.labels, samples_, label_bytes());
  dense_ = columns.find("/dense", structure.dense, samples_, dense_width_ * 4);
  label_sums_ = columns.sums("/label", structure.labels, blocks());
  dense_sums_ = columns.sums("/dense", structure.dense, blocks());
  if (weighted_) {
    weights_ = columns.find("/weight", structure.weights, samples_, 4);
    weight_sums_ = columns.sums("/weight", structure.weights, blocks());
  }
  preprocessing_bytes_ = structure.preprocessing_bytes;
  preprocessing_ = columns.find("/preprocessing", structure.preprocessing, preprocessing_bytes_, 1);
  for (const StoredFeature& feature : structure.features) {
    features_.push_back(columns.feature(feature, blocks()));
  }
}

DatasetFile::~DatasetFile() = default;

const std::string& DatasetFile::path() const { return file_->path(); }

int64_t DatasetFile::blocks() const {
  return checksum_samples_ > 0 ? (samples_ + checksum_samples_ - 1) / checksum_samples_ : 0;
}

void DatasetFile::check_whole() const { file_->check_whole(); }

std::string_view DatasetFile::preprocessing() const {
  if (!preprocessing_) return {};
  return {reinterpret_cast<const char*>(preprocessing_), static_cast<size_t>(preprocessing_bytes_)};
}

const MappedFeature* DatasetFile::find(const std::string& name) const {
  for (const MappedFeature& feature : features_) {
    if (feature.name == name) return &feature;
  }
  return nullptr;
}

Dataset::Dataset(const std::vector<std::string>& paths) : starts_{0} {
  std::vector<std::string> files;
  for (const std::string& path : paths) add_files(path, files);
  std::vector<std::unique_ptr<MappedFile>> mapped;
  for (const std::string& file : files) mapped.push_back(std::make_unique<MappedFile>(file));
  const std::vector<DatasetStructure> structures = read_structures(files);
  for (size_t f = 0; f < files.size(); ++f) {
    files_.push_back(std::make_unique<DatasetFile>(std::move(mapped[f]), structures[f]));
    check_alike(*files_.front(), *files_.back());
    starts_.push_back(starts_.back() + files_.back()->samples());
  }
}

FilePreprocessing Dataset::preprocessing(const std::vector<std::string>& features) const {
  std::vector<FilePreprocessing> all;
  for (const auto& file : files_) all.push_back({file->path(), file->preprocessing()});
  return widest(all, features);
}

FilePreprocessing Dataset::preprocessing() const {
  std::vector<std::string> features;
  for (const MappedFeature& feature : files_.front()->features()) features.push_back(feature.name);
  return preprocessing(features);
}

int64_t Dataset::rows(const std::string& feature) const {
  int64_t rows = 0;
  for (const auto& file : files_) {
    if (const MappedFeature* found = file->find(feature)) rows = std::max(rows, found->rows);
  }
  return rows;
}

}  // namespace dlrm
