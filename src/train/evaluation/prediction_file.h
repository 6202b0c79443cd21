#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/view.h"

namespace dlrm {

/// usage_error unless the name ends in .csv or, of samples that are no records, .h5.
void check_prediction_name(const std::string& path, bool of_records);

/// What precedes the probabilities of records, which have no labels.
struct PredictionKeys {
  std::vector<std::string> names;
  /// For each of samples [first, last) fields of CSV with commas between. Rank 0 asks.
  std::function<std::vector<std::string>(int64_t first, int64_t last)> of;
};

/// Writes the probability and the label of every evaluated sample to one file, in the order of
/// data.test. The file has the same samples in the same order for any number of ranks. Rank 0
/// writes it as batches are evaluated. All calls are collective. An error is the same on every
/// rank, and leaves no file.
class PredictionFile {
 public:
  /// A name that ends in .csv is text: a line "sample,label,probability" for each sample, after a
  /// line with these names. A name that ends in .h5 is an HDF5 file with /sample (int64), /label
  /// and /probability (float32), each [samples]. With `tasks` there are a label_<task> and a
  /// probability_<task> for each of them. A missing label is empty in text, NaN in HDF5. With
  /// `keys` the file is text, and has them instead of labels. usage_error for another name, and if
  /// the file cannot be made.
  PredictionFile(Communicator& comm, const std::string& path, int64_t samples,
                 const std::vector<std::string>& tasks = {},
                 const std::optional<PredictionKeys>& keys = {});
  ~PredictionFile();

  /// Appends the next global batch, of `size` samples. Each rank passes its part,
  /// part_of(size, rank, world), label by label.
  void append(int64_t size, View<const float> probabilities, View<const float> labels);
  /// Puts the file in its place.
  void finish();

  class Writer;
  struct Block;

 private:
  Communicator& comm_;
  const size_t labels_;
  std::unique_ptr<Writer> writer_;  ///< on rank 0
};

}  // namespace dlrm
