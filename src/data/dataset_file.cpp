#include "dlrm/data/dataset_file.h"

#include <algorithm>
#include <filesystem>

#include <sys/mman.h>

#include "dlrm/core/error.h"

#include "dataset_opener.h"

namespace dlrm {
namespace {

std::vector<std::string> files_of(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    const std::string extension = entry.path().extension().string();
    const bool hidden = entry.path().filename().string().front() == '.';
    if (!hidden && (extension == ".h5" || extension == ".hdf5")) files.push_back(entry.path());
  }
  if (files.empty()) throw usage_error("{}: a folder without *.h5 or *.hdf5 files", path);
  std::sort(files.begin(), files.end());
  return files;
}

void check_alike(const DatasetFile& first, const DatasetFile& other) {
  const auto differ = [&](const std::string& what) {
    return usage_error("{} and {} do not belong together: {} differs", first.path(), other.path(),
                       what);
  };
  if (first.dense_width() != other.dense_width()) throw differ("the width of /dense");
  if (first.label_type() != other.label_type()) throw differ("the type of /label");
  if (first.features().size() != other.features().size()) throw differ("the number of features");
  for (size_t f = 0; f < first.features().size(); ++f) {
    const MappedFeature& a = first.features()[f];
    const MappedFeature& b = other.features()[f];
    if (a.name != b.name) throw differ("the set of features (" + a.name + ", " + b.name + ")");
    if (a.hotness != b.hotness) throw differ("the hotness of feature " + a.name);
    if (a.type != b.type) throw differ("the type of the ids of feature " + a.name);
  }
}

}  // namespace

DatasetFile::DatasetFile(const std::string& path) : path_(path) {
  try {
    DatasetOpener(*this).open();
  } catch (...) {
    if (mapping_) munmap(mapping_, mapped_bytes_);
    throw;
  }
}

DatasetFile::~DatasetFile() { munmap(mapping_, mapped_bytes_); }

const MappedFeature* DatasetFile::find(const std::string& name) const {
  for (const MappedFeature& feature : features_) {
    if (feature.name == name) return &feature;
  }
  return nullptr;
}

Dataset::Dataset(const std::string& path) : starts_{0} {
  for (const std::string& file : files_of(path)) {
    files_.push_back(std::make_unique<DatasetFile>(file));
    check_alike(*files_.front(), *files_.back());
    starts_.push_back(starts_.back() + files_.back()->samples());
  }
}

int64_t Dataset::rows(const std::string& feature) const {
  int64_t rows = 0;
  for (const auto& file : files_) {
    if (const MappedFeature* found = file->find(feature)) rows = std::max(rows, found->rows);
  }
  return rows;
}

}  // namespace dlrm
