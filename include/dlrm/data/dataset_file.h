#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dlrm/core/partition.h"
#include "dlrm/core/view.h"
#include "dlrm/data/dataset_writer.h"
#include "dlrm/encode/preprocessing.h"

namespace dlrm {

class MappedFile;
struct DatasetStructure;

/// One sparse feature in a mapped file. Values may be unaligned and are not checked yet.
struct MappedFeature {
  std::string name;
  int64_t rows = 0;     ///< ids should be below it
  int64_t hotness = 0;  ///< ids in every bag; 0: `offsets` gives the bags
  IdType type = IdType::kInt32;
  int64_t count = 0;                   ///< ids of all bags
  const std::byte* ids = nullptr;      ///< [count] int32 or int64
  const std::byte* offsets = nullptr;  ///< [samples + 1] int64, or null
  const std::byte* id_sums = nullptr;  ///< [blocks] uint32 CRC32C, or null
  const std::byte* offset_sums = nullptr;
  bool weighted = false;               ///< ids have weights
  const std::byte* weights = nullptr;  ///< [count] float
  const std::byte* weight_sums = nullptr;
};

/// A mapped dataset file whose structure has been checked. Reading its columns needs neither HDF5
/// nor a lock. Errors (exit 2) name the file, the dataset or attribute, and what would be right. Of
/// the values only the first and last offset of each feature are checked. What is cut off the file
/// while it is mapped reads as zeros; check_whole() tells.
class DatasetFile {
 public:
  explicit DatasetFile(const std::string& path);
  DatasetFile(std::unique_ptr<MappedFile> file, const DatasetStructure& structure);
  ~DatasetFile();
  DatasetFile(const DatasetFile&) = delete;
  DatasetFile& operator=(const DatasetFile&) = delete;

  const std::string& path() const;
  int64_t samples() const { return samples_; }
  int64_t dense_width() const { return dense_width_; }
  LabelType label_type() const { return label_type_; }
  int64_t num_labels() const { return num_labels_; }                           ///< of a sample
  int64_t label_bytes() const { return num_labels_ * bytes_of(label_type_); }  ///< of a sample
  bool weighted() const { return weighted_; }
  const std::byte* labels() const { return labels_; }    ///< [samples, num_labels] uint8 or float
  const std::byte* weights() const { return weights_; }  ///< [samples] float, or null
  const std::byte* dense() const { return dense_; }      ///< [samples, dense_width] float
  const std::vector<MappedFeature>& features() const { return features_; }  ///< sorted by name
  /// The feature of that name, or null.
  const MappedFeature* find(const std::string& name) const;

  /// Samples in a block with a checksum, a power of 2. 0: the file has no checksums.
  int64_t checksum_samples() const { return checksum_samples_; }
  int64_t blocks() const;  ///< with a checksum
  /// How the samples were made of records (docs/file-formats.md, "Preprocessing"); empty if the
  /// file does not say.
  std::string_view preprocessing() const;
  /// Compares the labels, weights, dense features and `features` (numbers in features()) of a block
  /// with their checksums. An error (exit 2) names the file, the column and the block's samples.
  void verify(int64_t block, View<const size_t> features) const;
  /// Throws run_error naming the file if it was cut short, or if a part could not be read.
  void check_whole() const;

 private:
  std::unique_ptr<MappedFile> file_;
  int64_t samples_ = 0;
  int64_t checksum_samples_ = 0;
  int64_t dense_width_ = 0;
  LabelType label_type_ = LabelType::kUint8;
  int64_t num_labels_ = 1;
  bool weighted_ = false;
  const std::byte* labels_ = nullptr;
  const std::byte* weights_ = nullptr;
  const std::byte* dense_ = nullptr;
  const std::byte* label_sums_ = nullptr;
  const std::byte* weight_sums_ = nullptr;
  const std::byte* dense_sums_ = nullptr;
  int64_t preprocessing_bytes_ = 0;
  const std::byte* preprocessing_ = nullptr;
  std::vector<MappedFeature> features_;
};

/// A dataset: the samples of files, one after the other. A folder stands for its *.h5 and *.hdf5
/// files, sorted by name. All files have the same dense width, number of labels, types, feature
/// names and hotness, and all or none have weights, of samples and of the ids of a feature.
class Dataset {
 public:
  explicit Dataset(const std::string& path) : Dataset(std::vector<std::string>{path}) {}
  explicit Dataset(const std::vector<std::string>& paths);

  int64_t samples() const { return starts_.back(); }
  const std::vector<std::unique_ptr<DatasetFile>>& files() const { return files_; }
  /// [files + 1] number of samples before each file.
  const std::vector<int64_t>& starts() const { return starts_; }
  /// That of the file whose dictionaries have grown from those of all others. A usage_error names
  /// two files in which the ids of one of these features, or numbers, do not mean the same.
  FilePreprocessing preprocessing(const std::vector<std::string>& features) const;
  /// The same for all features.
  FilePreprocessing preprocessing() const;
  /// The largest `rows` of a feature over the files.
  int64_t rows(const std::string& feature) const;

 private:
  std::vector<std::unique_ptr<DatasetFile>> files_;
  std::vector<int64_t> starts_;
};

}  // namespace dlrm
