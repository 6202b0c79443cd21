#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dlrm {

/// One feature over all records.
struct FeatureStatistics {
  std::string name;
  int64_t rows = 0;
  int64_t ids = 0;
  int64_t hotness = 0;  ///< 0: with offsets
  int64_t longest_bag = 0;
  int64_t empty_bags = 0;
  int64_t largest_id = -1;  ///< -1: no id
  int64_t distinct = -1;    ///< ids that occur; -1: too many rows to count
  double top_share = 0;     ///< share of all ids that the most frequent id has
  double top_hundred = 0;   ///< share of the hundred most frequent
};

/// The contents of a dataset, all values checked.
struct Inspection {
  std::string path;
  int64_t files = 0;
  int64_t samples = 0;
  double label_mean = 0;
  std::vector<float> dense_min, dense_max;
  std::vector<double> dense_mean;
  std::vector<FeatureStatistics> features;
};

/// Reads everything: structure, labels in [0, 1], finite dense values, offsets that rise, ids in
/// range. The first defect is a usage_error naming file, record (counted from 0) and column.
Inspection inspect_dataset(const std::string& path);

/// The text that the program prints.
std::string describe_inspection(const Inspection& inspection);

}  // namespace dlrm
