#include "teacher.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>

#include "dlrm/core/random.h"

namespace dlrm {
namespace {

constexpr size_t kInformative = 8;
constexpr int64_t kFrequentIds = 64;
// Features with smaller vocabularies contain too little information.
constexpr int64_t kFewestRows = 20;
// These weights give a best AUC of about 0.80 and a click rate of about 0.3.
constexpr double kDenseWeight = 0.6, kSingleWeight = 0.5, kPairsWeight = 1.2, kBias = -1.1;

/// Probability of an id below k.
double share_below(const Teacher::Feature& feature, int64_t k) {
  const double g = 1.0 - feature.alpha;
  const double span = feature.law.span;
  const auto at = static_cast<double>(k);
  if (feature.law.inverse == 0.0) return std::log(at + 1.0) / span;
  return (std::pow(at + 1.0, g) - 1.0) / span;
}

/// Chooses the features with the fewest rows, but not too few, in the data's order.
std::vector<size_t> choose(const std::vector<Teacher::Feature>& features) {
  std::vector<size_t> order(features.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int64_t ra = features[a].law.rows, rb = features[b].law.rows;
    if ((ra < kFewestRows) != (rb < kFewestRows)) return rb < kFewestRows;
    return ra < rb;
  });
  order.resize(std::min(order.size(), kInformative));
  std::sort(order.begin(), order.end());
  return order;
}

/// Subtracts the mean, weighted by the frequency of each id, from a column of [ids, width].
void centre(const Teacher::Feature& feature, std::vector<double>& values, size_t column,
            size_t width) {
  const auto ids = static_cast<int64_t>(values.size() / width);
  double sum = 0;
  for (int64_t k = 0; k < ids; ++k) {
    const double share = share_below(feature, k + 1) - share_below(feature, k);
    sum += share * values[static_cast<size_t>(k) * width + column];
  }
  const double mean = sum / share_below(feature, ids);
  for (size_t k = column; k < values.size(); k += width) values[k] -= mean;
}

}  // namespace

Teacher::Teacher(uint64_t seed, int64_t dense_width, const std::vector<Feature>& features) {
  for (int64_t c = 0; c < dense_width; ++c) {
    dense_weights_.push_back(
        normal_at(stream_key(seed, "teacher/dense"), 0, static_cast<uint32_t>(c)));
  }
  for (const size_t f : choose(features)) {
    const auto ids = static_cast<size_t>(std::min(features[f].law.rows, kFrequentIds));
    const uint64_t key = stream_key(seed, "teacher/feature/" + std::to_string(f));
    Informative made{f, std::vector<double>(ids), std::vector<double>(ids * kRank)};
    for (size_t k = 0; k < ids; ++k) {
      made.effect[k] = normal_at(key, k, 0);
      for (size_t r = 0; r < kRank; ++r) {
        made.latent[k * kRank + r] = normal_at(key, k, static_cast<uint32_t>(r + 1));
      }
    }
    for (size_t r = 0; r < kRank; ++r) centre(features[f], made.latent, r, kRank);
    informative_.push_back(std::move(made));
  }
}

Teacher::Parts Teacher::parts(const std::vector<float>& unit, const Batch& batch,
                              size_t sample) const {
  Parts parts;
  const size_t n = dense_weights_.size();
  for (size_t c = 0; c < n; ++c) {
    parts.dense += dense_weights_[c] * static_cast<double>(unit[sample * n + c]);
  }
  const auto b = static_cast<size_t>(batch.size());
  std::array<double, kRank> before{};
  for (size_t q = 0; q < informative_.size(); ++q) {
    const Informative& feature = informative_[q];
    const auto begin = static_cast<size_t>(batch.offsets[feature.feature * b + sample]);
    const auto end = static_cast<size_t>(batch.offsets[feature.feature * b + sample + 1]);
    double effect = 0;
    std::array<double, kRank> latent{};
    for (size_t k = begin; k < end; ++k) {
      const auto id = static_cast<size_t>(batch.ids[k]);  // a missing id, -1, becomes large
      if (id >= feature.effect.size()) continue;
      effect += feature.effect[id];
      for (size_t r = 0; r < kRank; ++r) latent[r] += feature.latent[id * kRank + r];
    }
    parts.single += effect;
    for (size_t r = 0; r < kRank && q % 2 == 1; ++r) parts.pairs += before[r] * latent[r];
    before = latent;
  }
  return parts;
}

void Teacher::calibrate(const std::vector<float>& unit, const Batch& batch) {
  const auto b = static_cast<size_t>(batch.size());
  const auto scale_of = [&](double Parts::*part) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < b; ++i) {
      const double value = parts(unit, batch, i).*part;
      sum += value;
      squares += value * value;
    }
    const double mean = sum / static_cast<double>(b);
    const double variance = squares / static_cast<double>(b) - mean * mean;
    return Scale{mean, variance > 1e-12 ? 1.0 / std::sqrt(variance) : 0.0};
  };
  dense_ = scale_of(&Parts::dense);
  single_ = scale_of(&Parts::single);
  pairs_ = scale_of(&Parts::pairs);
}

void Teacher::score(const std::vector<float>& unit, const Batch& batch, Scores& scores) const {
  const auto b = static_cast<size_t>(batch.size());
  scores.probability.resize(b);
  scores.additive.resize(b);
  for (size_t i = 0; i < b; ++i) {
    const Parts raw = parts(unit, batch, i);
    const double additive =
        kBias + kDenseWeight * dense_(raw.dense) + kSingleWeight * single_(raw.single);
    const double logit = additive + kPairsWeight * pairs_(raw.pairs);
    scores.additive[i] = static_cast<float>(additive);
    scores.probability[i] = static_cast<float>(1.0 / (1.0 + std::exp(-logit)));
  }
}

double exact_auc(std::vector<std::pair<float, bool>>& scored) {
  std::sort(scored.begin(), scored.end());
  double ones = 0, zeros = 0, above = 0;
  for (size_t i = 0; i < scored.size();) {
    double tied_ones = 0, tied_zeros = 0;
    const float value = scored[i].first;
    for (; i < scored.size() && scored[i].first == value; ++i) {
      (scored[i].second ? tied_ones : tied_zeros) += 1;
    }
    above += tied_ones * (zeros + 0.5 * tied_zeros);
    ones += tied_ones;
    zeros += tied_zeros;
  }
  return ones > 0 && zeros > 0 ? above / (ones * zeros) : 0.5;
}

}  // namespace dlrm
