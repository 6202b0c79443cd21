#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "dlrm/data/batch.h"
#include "dlrm/data/synthetic_draws.h"

namespace dlrm {

/// A known logistic model that labels are drawn from, so that the best AUC that any model can reach
/// is known. Its score adds three parts, each of unit variance before its weight: a linear one in
/// the dense features, an effect of single ids, and products of the latent vectors of pairs of ids.
/// The last is the largest and cannot be had from ids one by one (latent vectors have mean zero),
/// so that a linear model stays far behind. Only frequent ids of a few features matter, so that a
/// million samples suffice to learn it.
class Teacher {
 public:
  /// One feature of the data, in the batch's order.
  struct Feature {
    PowerLaw law;
    double alpha;
  };

  Teacher(uint64_t seed, int64_t dense_width, const std::vector<Feature>& features);

  /// Sets scales from a block of samples, always the same one of a stream. `unit`: [b, dense_width]
  /// dense features scaled to [0, 1].
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
  std::vector<Informative> informative_;  // 2k pairs with 2k + 1
  Scale dense_, single_, pairs_;
};

/// Probability that a sample of label 1 scores above one of label 0, ties counting half: exact, by
/// sorting. 0.5 where a label is missing.
double exact_auc(std::vector<std::pair<float, bool>>& scored);

}  // namespace dlrm
