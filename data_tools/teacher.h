#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "dlrm/data/batch.h"
#include "dlrm/data/synthetic_draws.h"

namespace dlrm {

/// A known logistic model from which labels are drawn, so that the best possible AUC is known. Its
/// score is the weighted sum of three parts of unit variance: a linear function of the dense
/// features, an effect of single ids, and products of the latent vectors of pairs of ids. The last
/// part has the largest weight. Latent vectors have mean zero, so a linear model cannot learn it.
/// Only frequent ids of a few features matter, so a million samples suffice to learn it.
class Teacher {
 public:
  /// One feature of the data, in the batch's order.
  struct Feature {
    PowerLaw law;
    double alpha;
  };

  Teacher(uint64_t seed, int64_t dense_width, const std::vector<Feature>& features);

  /// Sets scales from a block of samples. It must be the same block of a stream in every run.
  /// `unit`: [b, dense_width] dense features scaled to [0, 1].
  void calibrate(const std::vector<float>& unit, const Batch& batch);

  struct Scores {
    std::vector<float> probability;  ///< [b] that the label is 1
    std::vector<float> additive;     ///< [b] the logit without interactions
  };
  void score(const std::vector<float>& unit, const Batch& batch, Scores& scores) const;

 private:
  static constexpr size_t kRank = 2;
  struct Informative {
    size_t feature;
    std::vector<double> effect;  // [frequent ids]
    std::vector<double> latent;  // [frequent ids, kRank]
  };
  struct Parts {
    double dense = 0, single = 0, pairs = 0;
  };
  struct Scale {
    double mean = 0, factor = 0;
    double operator()(double raw) const { return (raw - mean) * factor; }
  };

  Parts parts(const std::vector<float>& unit, const Batch& batch, size_t sample) const;

  std::vector<double> dense_weights_;
  std::vector<Informative> informative_;  // element 2k is paired with 2k + 1
  Scale dense_, single_, pairs_;
};

/// The exact probability that a sample of label 1 has a higher score than one of label 0. Ties
/// count half. 0.5 if one label does not occur.
double exact_auc(std::vector<std::pair<float, bool>>& scored);

}  // namespace dlrm
