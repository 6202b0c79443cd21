#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/partition.h"
#include "dlrm/metrics/metrics.h"

#include "error_of.h"

namespace dlrm {
namespace {

struct WeightedSamples {
  std::vector<float> p, y, w;

  size_t size() const { return p.size(); }
};

/// Probabilities of `levels` values, labels that follow them, and weights of any size, some of them
/// 0.
WeightedSamples weighted_samples(size_t count, int levels, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(0, 1);
  WeightedSamples s;
  for (size_t i = 0; i < count; ++i) {
    const float p =
        std::floor(uniform(generator) * static_cast<float>(levels)) / static_cast<float>(levels);
    s.p.push_back(p);
    s.y.push_back(uniform(generator) < p ? 1.0f : 0.0f);
    s.w.push_back(i % 7 == 0 ? 0.0f : uniform(generator) * static_cast<float>(1 + i % 40));
  }
  return s;
}

/// All metrics by their definitions, in fp64. Labels are 0 or 1.
EvalResult by_definition(const WeightedSamples& s) {
  double weight = 0, loss = 0, right = 0, p_sum = 0, y_sum = 0, ordered = 0, pairs = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    const double p = s.p[i], y = s.y[i], w = s.w[i];
    weight += w;
    if (w > 0) loss -= w * std::log(std::clamp(y == 1 ? p : 1 - p, 1e-15, 1.0));
    right += (p >= 0.5) == (y >= 0.5) ? w : 0;
    p_sum += w * p;
    y_sum += w * y;
    for (size_t j = 0; j < s.size() && y == 1; ++j) {
      if (s.y[j] == 1) continue;
      pairs += w * s.w[j];
      ordered += w * s.w[j] * (p > s.p[j] ? 1.0 : p == s.p[j] ? 0.5 : 0.0);
    }
  }
  double precision = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s.y[i] != 1 || s.w[i] == 0) continue;
    double positives = 0, chosen = 0;
    for (size_t j = 0; j < s.size(); ++j) {
      if (s.p[j] < s.p[i]) continue;
      chosen += s.w[j];
      positives += s.y[j] == 1 ? s.w[j] : 0;
    }
    precision += s.w[i] * positives / chosen;
  }
  const double q = y_sum / weight;
  EvalResult result{static_cast<int64_t>(s.size()), ordered / pairs, loss / weight, right / weight,
                    p_sum / y_sum};
  result.pr_auc = precision / y_sum;
  result.normalised_entropy = loss / weight / -(q * std::log(q) + (1 - q) * std::log(1 - q));
  return result;
}

/// The metrics on several ranks, which must agree bitwise. Parts are unequal, and one is empty.
EvalResult evaluate(const WeightedSamples& s, size_t ranks, bool weighted = true) {
  std::mutex mutex;
  std::vector<EvalResult> results;
  run_on_threads(static_cast<int>(ranks), [&](Communicator& comm) {
    const auto r = static_cast<size_t>(comm.rank());
    const auto cut = [&](size_t part) { return s.size() * part * part / (ranks * ranks); };
    const size_t begin = r < 2 ? 0 : cut(r), count = r == 0 && ranks > 1 ? 0 : cut(r + 1) - begin;
    const Targets targets{s.y, weighted ? View<const float>(s.w) : View<const float>()};
    const EvalResult result = evaluate_metrics(comm, View<const float>(s.p).subspan(begin, count),
                                               targets.part(begin, count));
    const std::lock_guard lock(mutex);
    results.push_back(result);
  });
  for (const EvalResult& result : results) {
    EXPECT_EQ(result.auc, results[0].auc);
    EXPECT_EQ(result.log_loss, results[0].log_loss);
    EXPECT_EQ(result.accuracy, results[0].accuracy);
    EXPECT_EQ(result.calibration, results[0].calibration);
    EXPECT_EQ(result.pr_auc, results[0].pr_auc);
    EXPECT_EQ(result.normalised_entropy, results[0].normalised_entropy);
  }
  return results[0];
}

class WeightedMetrics : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Metrics, WeightedMetrics, ::testing::Values(1, 2, 3, 5));

TEST_P(WeightedMetrics, FollowTheirDefinitions) {
  for (const int levels : {2, 37, 1 << 20}) {
    const WeightedSamples s = weighted_samples(701, levels, 1);
    const EvalResult result = evaluate(s, GetParam()), expected = by_definition(s);
    EXPECT_EQ(result.samples, 701);
    EXPECT_NEAR(*result.auc, *expected.auc, 1e-13) << levels;
    EXPECT_NEAR(result.log_loss, expected.log_loss, 1e-12) << levels;
    EXPECT_NEAR(result.accuracy, expected.accuracy, 1e-13) << levels;
    EXPECT_NEAR(result.calibration, expected.calibration, 1e-12) << levels;
    EXPECT_NEAR(*result.pr_auc, *expected.pr_auc, 1e-12) << levels;
    EXPECT_NEAR(*result.normalised_entropy, *expected.normalised_entropy, 1e-12) << levels;
    const EvalResult plain = evaluate(s, GetParam(), false);
    WeightedSamples equal = s;
    std::fill(equal.w.begin(), equal.w.end(), 1.0f);
    EXPECT_NEAR(*plain.pr_auc, *by_definition(equal).pr_auc, 1e-12) << levels;
  }
}

/// Groups of one class, of one sample, and samples of no group.
TEST_P(WeightedMetrics, AGroupedAucIsTheMeanOfTheAucsInGroups) {
  for (const int levels : {3, 1 << 20}) {
    const WeightedSamples s = weighted_samples(701, levels, 4);
    std::vector<int64_t> groups;
    for (size_t i = 0; i < s.size(); ++i) {
      groups.push_back(i % 11 == 0 ? -1 : int64_t{1} << (i % 40));
    }
    groups[7] = 3;
    double sum = 0, weight = 0;
    for (int64_t group = 1; group < int64_t{1} << 40; group *= 2) {
      WeightedSamples in;
      for (size_t i = 0; i < s.size(); ++i) {
        if (groups[i] != group || s.w[i] == 0) continue;
        in.p.push_back(s.p[i]), in.y.push_back(s.y[i]), in.w.push_back(s.w[i]);
      }
      const auto positives = std::count(in.y.begin(), in.y.end(), 1.0f);
      if (positives == 0 || positives == std::ssize(in.y)) continue;
      double all = 0;
      for (const float w : in.w) all += w;
      sum += all * *by_definition(in).auc;
      weight += all;
    }
    run_on_threads(static_cast<int>(GetParam()), [&](Communicator& comm) {
      const Range mine = part_of(701, comm.rank(), comm.size());
      const auto begin = static_cast<size_t>(mine.begin), size = static_cast<size_t>(mine.size());
      const auto result = grouped_auc(comm, View<const int64_t>(groups).subspan(begin, size),
                                      View<const float>(s.p).subspan(begin, size),
                                      Targets{s.y, s.w}.part(begin, size));
      EXPECT_NEAR(result.value_or(0), sum / weight, 1e-12) << levels;
      EXPECT_FALSE(grouped_auc(comm, {}, {}, Targets{{}, {}}).has_value()) << "no group";
    });
  }
}

/// More than one block of a long sum, with labels between the classes and impossible predictions.
TEST_P(WeightedMetrics, OfManySamplesFollowTheirDefinitions) {
  WeightedSamples s = weighted_samples(3 * 4096 + 17, 1 << 20, 8);
  for (size_t i = 0; i < s.size(); ++i) {
    if (i % 5 == 0) s.y[i] = static_cast<float>(i % 9) / 8;
    if (i % 101 == 0) s.p[i] = i % 2 == 0 ? 0.0f : 1.0f;
  }
  double weight = 0, loss = 0, right = 0, p_sum = 0, y_sum = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    const double p = s.p[i], y = s.y[i], w = s.w[i];
    const double clipped = std::clamp(p, 1e-15, 1 - 1e-15);
    loss -= w * (y * std::log(clipped) + (1 - y) * std::log1p(-clipped));
    right += (s.p[i] < 0.5f) == (s.y[i] < 0.5f) ? w : 0;
    weight += w, p_sum += w * p, y_sum += w * y;
  }
  const EvalResult result = evaluate(s, GetParam());
  EXPECT_EQ(result.samples, 3 * 4096 + 17);
  EXPECT_NEAR(result.log_loss, loss / weight, 1e-11);
  EXPECT_NEAR(result.accuracy, right / weight, 1e-12);
  EXPECT_NEAR(result.calibration, p_sum / y_sum, 1e-12);
}

TEST(ExtremePredictions, CostAsMuchAsTheLeastDistanceFromThem) {
  const auto comm = make_self_comm();
  const auto of = [&](float p, float y) {
    const std::vector<float> probabilities{p}, labels{y}, weights{3};
    return evaluate_metrics(*comm, probabilities, {labels, weights});
  };
  const double most = -std::log(1e-15), none = -std::log1p(-1e-15);
  for (const auto& [p, y, loss, right] :
       {std::tuple(0.0f, 0.0f, none, 1.0),
        {-0.0f, 1.0f, most, 0.0},
        {0.0f, 1.0f, most, 0.0},
        {1.0f, 1.0f, none, 1.0},
        {1.0f, 0.0f, most, 0.0},
        {0.5f, 0.5f, std::log(2.0), 1.0},
        {0.25f, 0.25f, 0.25 * std::log(4) - 0.75 * std::log(0.75), 1.0},
        {1.0f, 0.25f, 0.75 * most + 0.25 * none, 0.0},
        {0.49f, 0.5f, -0.5 * std::log(0.49 * 0.51), 0.0}}) {
    EXPECT_NEAR(of(p, y).log_loss, loss, loss < 1 ? 1e-7 : 0.03) << p << ", " << y;
    EXPECT_EQ(of(p, y).accuracy, right) << p << ", " << y;
  }
}

TEST_P(WeightedMetrics, WeightsOfOneGiveTheBitsOfNoWeights) {
  WeightedSamples s = weighted_samples(20011, 5000, 2);
  std::fill(s.w.begin(), s.w.end(), 1.0f);
  const EvalResult result = evaluate(s, GetParam()), plain = evaluate(s, GetParam(), false);
  EXPECT_EQ(result.auc, plain.auc);
  EXPECT_EQ(result.log_loss, plain.log_loss);
  EXPECT_EQ(result.accuracy, plain.accuracy);
  EXPECT_EQ(result.calibration, plain.calibration);
}

TEST_P(WeightedMetrics, AWholeWeightIsThatManySamples) {
  WeightedSamples s = weighted_samples(300, 20, 3), repeated;
  for (size_t i = 0; i < s.size(); ++i) {
    s.w[i] = static_cast<float>(i % 4);
    for (size_t k = 0; k < i % 4; ++k) {
      repeated.p.push_back(s.p[i]);
      repeated.y.push_back(s.y[i]);
    }
  }
  const EvalResult result = evaluate(s, GetParam()), expected = evaluate(repeated, 1, false);
  EXPECT_NEAR(*result.auc, *expected.auc, 1e-14);
  EXPECT_NEAR(result.log_loss, expected.log_loss, 1e-12);
  EXPECT_NEAR(result.accuracy, expected.accuracy, 1e-14);
  EXPECT_NEAR(result.calibration, expected.calibration, 1e-13);
}

TEST_P(WeightedMetrics, AClassWithoutWeightHasNoAuc) {
  WeightedSamples s = weighted_samples(40, 10, 4);
  for (size_t i = 0; i < s.size(); ++i) s.w[i] = s.y[i] == 1 ? 0.0f : 2.0f;
  const EvalResult result = evaluate(s, GetParam());
  EXPECT_FALSE(result.auc.has_value());
  EXPECT_GT(result.log_loss, 0);
}

TEST_P(WeightedMetrics, NoWeightAtAllGivesZeros) {
  WeightedSamples s = weighted_samples(40, 10, 5);
  std::fill(s.w.begin(), s.w.end(), 0.0f);
  const EvalResult result = evaluate(s, GetParam());
  EXPECT_EQ(result.samples, 40);
  EXPECT_FALSE(result.auc.has_value());
  EXPECT_EQ(result.log_loss, 0);
  EXPECT_EQ(result.accuracy, 0);
  EXPECT_EQ(result.calibration, 0);
}

TEST(WeightsInAnyOrder, GiveTheSameBits) {
  WeightedSamples s = weighted_samples(3000, 5, 6);  // many weights for each probability and label
  // So different that fp64 rounds their sums.
  for (size_t i = 0; i < s.size(); ++i) s.w[i] = std::ldexp(s.w[i], static_cast<int>(i % 61) - 30);
  const EvalResult expected = evaluate(s, 1);
  std::mt19937 generator(7);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = s.size() - 1; i > 0; --i) {
      const size_t other = generator() % (i + 1);
      std::swap(s.p[i], s.p[other]);
      std::swap(s.y[i], s.y[other]);
      std::swap(s.w[i], s.w[other]);
    }
    EXPECT_EQ(evaluate(s, 1).auc, expected.auc);
  }
}

TEST(BadWeights, AreNamedWithRankAndSample) {
  for (const float bad :
       {-1.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    run_on_threads(2, [&](Communicator& comm) {
      const std::vector<float> p{0.5f, 0.5f}, y{0, 1};
      std::vector<float> w{1, 1};
      if (comm.rank() == 1) w[1] = bad;
      const std::string text = error_of([&] { evaluate_metrics(comm, p, {y, w}); });
      EXPECT_THAT(text,
                  ::testing::HasSubstr(fmt::format(
                      "sample 1 of rank 1 has probability 0.5, label 1 and weight {};", bad)));
    });
  }
}

}  // namespace
}  // namespace dlrm
