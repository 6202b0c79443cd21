#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dlrm {

/// Statistics of one feature over all records.
struct FeatureStatistics {
  std::string name;
  int64_t rows = 0;
  int64_t ids = 0;
  int64_t hotness = 0;  ///< 0: with offsets
  int64_t longest_bag = 0;
  int64_t empty_bags = 0;
  int64_t largest_id = -1;               ///< -1: no id
  int64_t distinct = -1;                 ///< number of ids that occur; -1: too many rows to count
  double top_share = 0;                  ///< share of the most frequent id in all ids
  double top_hundred = 0;                ///< share of the hundred most frequent ids in all ids
  bool weighted = false;                 ///< ids have weights
  float weight_min = 0, weight_max = 0;  ///< if there are any
  double weight_mean = 0;
};

/// Statistics of one of several labels over the samples that have it.
struct LabelStatistics {
  double mean = 0;
  int64_t missing = 0;  ///< samples without it
};

/// The contents of a dataset. All values have been checked.
struct Inspection {
  std::string path;
  int64_t files = 0;
  int64_t samples = 0;
  int64_t files_with_checksums = 0;
  double label_mean = 0;                ///< of all labels that are not missing
  std::vector<LabelStatistics> labels;  ///< if there are several
  bool weighted = false;
  float weight_min = 0, weight_max = 0;  ///< if weighted
  double weight_mean = 0;
  std::vector<float> dense_min, dense_max;
  std::vector<double> dense_mean;
  std::vector<FeatureStatistics> features;
  std::string preprocessing;  ///< a line for each column of records; empty if the files do not say
};

/// Reads and checks the whole dataset: structure, labels in [0, 1] (or NaN, of several), finite
/// weights of at least 0, finite weights of ids, finite dense values, offsets that do not fall, ids
/// in range. The first defect is a usage_error naming file, record (counted from 0) and column.
Inspection inspect_dataset(const std::string& path);

/// The report that the program prints.
std::string describe_inspection(const Inspection& inspection);

}  // namespace dlrm
