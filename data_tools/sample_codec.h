#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dlrm/core/partition.h"
#include "dlrm/data/dataset_file.h"
#include "dlrm/data/dataset_writer.h"

namespace dlrm {

/// Samples one after the other, each as one run of bytes.
struct EncodedSamples {
  std::vector<std::byte> bytes;
  std::vector<size_t> starts;  ///< [samples + 1]

  size_t count() const { return starts.size() - 1; }
  const std::byte* sample(size_t i) const { return bytes.data() + starts[i]; }
  size_t size(size_t i) const { return starts[i + 1] - starts[i]; }
};

/// A sum of 128-bit hashes of samples, word by word: equal for equal samples in any order.
struct SampleSum {
  uint64_t low = 0, high = 0;

  void add(const EncodedSamples& samples);
  void add(const SampleSum& other) {
    low += other.low;
    high += other.high;
  }
  bool operator==(const SampleSum&) const = default;
};

/// Columns that a DatasetWriter takes.
struct DecodedBlock {
  int64_t samples = 0;
  std::vector<float> labels, weights, dense;
  struct Bags {
    std::vector<int32_t> ids, lengths;
    std::vector<int64_t> wide_ids;
    std::vector<float> weights;
  };
  std::vector<Bags> bags;

  DatasetBlock view() const;
};

/// Turns the columns of a dataset into samples, and samples into columns. A sample is its labels as
/// they are stored, its weight if it has one, its dense features, and of each feature, sorted by
/// name, the number of ids (int32, if it may vary), the ids, and their weights if they have some.
/// Values are not checked.
class SampleCodec {
 public:
  explicit SampleCodec(const Dataset& dataset);

  /// The layout of a file with all samples of the dataset.
  const DatasetLayout& layout() const { return layout_; }
  /// Bytes of all samples of the dataset.
  int64_t total_bytes() const { return total_bytes_; }

  /// Encodes consecutive samples of a file. Wrong offsets are a usage_error.
  void encode(const DatasetFile& file, Range samples, EncodedSamples& out) const;
  /// Bytes of the sample that begins here, or 0 if it does not end at `end` or before.
  size_t size_at(const std::byte* sample, const std::byte* end) const;
  /// The samples at `begin`, in this order.
  void decode(const std::byte* const* begin, size_t count, DecodedBlock& out) const;
  /// The sum of the samples of a block, which are encoded again from its columns.
  SampleSum sum_of(const DecodedBlock& block) const;

 private:
  void measure(const DatasetFile& file, Range samples, EncodedSamples& out) const;
  void request(const std::byte* sample) const;
  void measure(const DecodedBlock& block, size_t from, EncodedSamples& tile) const;
  template <class Id>
  void decode_bags(size_t feature, const std::byte** at, size_t count, std::vector<Id>& ids,
                   DecodedBlock::Bags& bags) const;

  DatasetLayout layout_;
  bool varies_ = false;         ///< the number of ids of a sample
  size_t before_features_ = 0;  ///< bytes of a sample
  size_t fixed_bytes_ = 0;      ///< of a sample with empty bags, but for the bags of fixed hotness
  int64_t total_bytes_ = 0;
};

/// Tells the system that samples will be read soon, or that their pages may be dropped.
enum class PageAdvice { kWillNeed, kDontNeed };
void advise_samples(const DatasetFile& file, Range samples, PageAdvice advice);

}  // namespace dlrm
