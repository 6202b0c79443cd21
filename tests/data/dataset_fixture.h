#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "dlrm/config/run_config.h"
#include "dlrm/core/error.h"
#include "dlrm/data/dataset_writer.h"

#include "error_of.h"

namespace dlrm {

/// A folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "dlrm_data_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// A small dataset whose values identify their sample: sample i has label i mod 2 (and others, see
/// label_of), dense {i, -i, ...}, weight i/2 if it has weights, id i mod rows in `one` (hotness 1,
/// int32), i·3+k mod rows in `three` (hotness 3, int64), and bags of i mod 4 ids i+k mod rows in
/// `bags` (offsets, int32).
struct SmallDataset {
  int64_t first = 0;  // number of the first sample
  int64_t samples = 10;
  int64_t dense = 2;
  LabelType label = LabelType::kUint8;
  int64_t labels = 1;  // of a sample
  bool weighted = false;
  std::string preprocessing;
  bool id_weights = false;  // of the ids of `three` and `bags`: that of sample i is i + k/4
  int64_t rows_one = 50, rows_three = 70, rows_bags = 30;

  DatasetLayout layout() const {
    DatasetLayout layout;
    layout.dense = dense;
    layout.label = label;
    layout.labels = labels;
    layout.weighted = weighted;
    layout.preprocessing = preprocessing;
    layout.features = {{"one", 1, rows_one, IdType::kInt32},
                       {"three", 3, rows_three, IdType::kInt64, -1, id_weights},
                       {"bags", 0, rows_bags, IdType::kInt32, -1, id_weights}};
    return layout;
  }

  /// Label l of sample i. Every third one is missing, unless it is the first or a whole number.
  float label_of(int64_t i, int64_t l) const {
    const bool missing = l > 0 && label == LabelType::kFloat32 && (i + l) % 3 == 0;
    return missing ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>((i + l) % 2);
  }
  static float id_weight(int64_t sample, int64_t k) {
    return static_cast<float>(sample) + static_cast<float>(k) / 4;
  }

  void write(const std::string& path, int64_t block = 7) const {
    DatasetWriter writer(path, layout());
    for (int64_t at = 0; at < samples; at += block) {
      append(writer, at, std::min(samples, at + block));
    }
    writer.finish();
  }

  void append(DatasetWriter& writer, int64_t begin, int64_t end) const {
    std::vector<float> all_labels, numbers, weights, of_three, of_bags;
    std::vector<int32_t> one, bags, lengths;
    std::vector<int64_t> three;
    for (int64_t i = first + begin; i < first + end; ++i) {
      for (int64_t l = 0; l < labels; ++l) all_labels.push_back(label_of(i, l));
      if (weighted) weights.push_back(static_cast<float>(i) / 2);
      for (int64_t c = 0; c < dense; ++c) {
        numbers.push_back(static_cast<float>(c % 2 == 0 ? i : -i));
      }
      one.push_back(static_cast<int32_t>(i % rows_one));
      for (int64_t k = 0; k < 3; ++k) three.push_back((i * 3 + k) % rows_three);
      lengths.push_back(static_cast<int32_t>(i % 4));
      for (int64_t k = 0; id_weights && k < 3; ++k) of_three.push_back(id_weight(i, k));
      for (int64_t k = 0; id_weights && k < i % 4; ++k) of_bags.push_back(id_weight(i, k));
      for (int64_t k = 0; k < i % 4; ++k) bags.push_back(static_cast<int32_t>((i + k) % rows_bags));
    }
    DatasetBlock data;
    data.samples = end - begin;
    data.labels = all_labels;
    data.weights = weights;
    data.dense = numbers;
    data.bags.resize(3);
    data.bags[0].ids = one;
    data.bags[1].wide_ids = three;
    data.bags[2].ids = bags;
    data.bags[2].lengths = lengths;
    data.bags[1].weights = of_three;
    data.bags[2].weights = of_bags;
    writer.append(data);
  }

  /// A config for this dataset. Its features are in another order than in the file.
  RunConfig config(const std::string& path, int64_t batch) const {
    RunConfig config;
    config.model.dense_features = dense;
    const auto table = [&](const std::string& name, int64_t rows, int64_t hotness) {
      TableConfig made;
      made.name = made.group = name;
      made.rows = rows;
      made.dim = 4;
      made.features.push_back({name, hotness, Pooling::kSum, id_weights && name != "one"});
      config.model.tables.push_back(made);
    };
    table("bags", rows_bags, 2);
    table("one", rows_one, 1);
    table("three", rows_three, 3);
    for (int64_t l = 0; labels > 1 && l < labels; ++l) {
      config.model.tasks.push_back({"task" + std::to_string(l), 1, {1}});
    }
    config.data.train = {path};
    config.train.global_batch_size = batch;
    return config;
  }
};

inline std::string bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace dlrm
