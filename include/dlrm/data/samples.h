#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "dlrm/config/run_config.h"

namespace dlrm {

/// What a sample of a model consists of, and what is predicted of it.
struct Inputs {
  struct Feature {
    std::string name;
    int64_t rows = 0;       ///< ids are at least 0 and less than this
    bool weighted = false;  ///< each id has a weight
    bool operator==(const Feature&) const = default;
  };
  int64_t dense = 0;              ///< numbers
  std::vector<Feature> features;  ///< a bag of ids each; table by table, in the config's order
  bool weighted = false;          ///< a feature has weights
  std::unordered_map<std::string, int64_t> number;  ///< of a feature, by its name
  std::vector<std::string> tasks;                   ///< the labels, if there are several

  size_t labels() const { return tasks.empty() ? 1 : tasks.size(); }

  bool operator==(const Inputs&) const = default;
};

Inputs inputs_of(const ModelConfig& model);

/// Samples that a model may be asked about: their numbers have been checked against its Inputs.
struct Samples {
  int64_t size = 0;
  std::vector<float> dense;         ///< [size, Inputs::dense]
  std::vector<int64_t> ids;         ///< sample after sample, in each feature after feature
  std::vector<int64_t> offsets{0};  ///< [size · features + 1], into ids
  std::vector<float> weights;       ///< of ids, 1 where a feature has none; empty if none has any

  void append(const Samples& others);
  void clear();
};

}  // namespace dlrm
