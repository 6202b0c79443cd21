#include "dlrm/metrics/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"

#include "changed_exchanges.h"
#include "error_of.h"

namespace dlrm {
namespace {

struct Samples {
  std::vector<float> p;
  std::vector<float> y;
  std::vector<float> w = {};  // empty: all are 1

  double weight(size_t i) const { return w.empty() ? 1 : w[i]; }
  Targets targets(size_t begin, size_t count) const { return Targets{y, w}.part(begin, count); }
};

/// AUC by its definition: counts every pair of a positive and a negative.
double auc_of_all_pairs(const Samples& s) {
  double right = 0, pairs = 0;
  for (size_t i = 0; i < s.p.size(); ++i) {
    for (size_t j = 0; j < s.p.size(); ++j) {
      if (s.y[i] < 0.5f || s.y[j] >= 0.5f) continue;
      const double weight = s.weight(i) * s.weight(j);
      pairs += weight;
      right += weight * (s.p[i] > s.p[j] ? 1.0 : s.p[i] == s.p[j] ? 0.5 : 0.0);
    }
  }
  return right / pairs;
}

/// AUC by mean ranks of all sorted samples.
double auc_of_sorted(const Samples& s) {
  std::vector<size_t> order(s.p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return s.p[a] < s.p[b]; });
  double rank_sum = 0, positives = 0;
  for (size_t i = 0; i < order.size();) {
    size_t end = i;
    while (end < order.size() && s.p[order[end]] == s.p[order[i]]) ++end;
    const double rank = (static_cast<double>(i + 1) + static_cast<double>(end)) / 2;
    for (; i < end; ++i) {
      if (s.y[order[i]] < 0.5f) continue;
      rank_sum += rank;
      positives += 1;
    }
  }
  const double negatives = static_cast<double>(s.p.size()) - positives;
  return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives);
}

/// Evaluates on `ranks` ranks. Rank r holds the samples between cuts r and r + 1. Checks that all
/// ranks agree bitwise.
EvalResult evaluate_cut(const Samples& s, const std::vector<size_t>& cuts) {
  std::mutex mutex;
  std::vector<EvalResult> results;
  run_on_threads(static_cast<int>(cuts.size()) - 1, [&](Communicator& comm) {
    const auto r = static_cast<size_t>(comm.rank());
    const size_t count = cuts[r + 1] - cuts[r];
    const EvalResult result = evaluate_metrics(comm, View<const float>(s.p).subspan(cuts[r], count),
                                               s.targets(cuts[r], count));
    const std::lock_guard lock(mutex);
    results.push_back(result);
  });
  for (const EvalResult& result : results) {
    EXPECT_EQ(result.samples, results[0].samples);
    EXPECT_EQ(result.auc, results[0].auc);
    EXPECT_EQ(result.log_loss, results[0].log_loss);
    EXPECT_EQ(result.accuracy, results[0].accuracy);
  }
  return results[0];
}

EvalResult evaluate(const Samples& s, size_t ranks) {
  std::vector<size_t> cuts;
  for (size_t r = 0; r <= ranks; ++r) cuts.push_back(r * s.p.size() / ranks);
  return evaluate_cut(s, cuts);
}

/// Samples with `levels` distinct probabilities (0: all floats). Each label is 1 with that
/// probability.
Samples random_samples(size_t count, int levels, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(0, 1);
  Samples s;
  for (size_t i = 0; i < count; ++i) {
    float p = uniform(generator);
    if (levels > 0) p = std::floor(p * static_cast<float>(levels)) / static_cast<float>(levels);
    s.p.push_back(p);
    s.y.push_back(uniform(generator) < p ? 1.0f : 0.0f);
  }
  return s;
}

class MetricsOnRanks : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Metrics, MetricsOnRanks, ::testing::Values(1, 2, 3, 4, 5));

TEST_P(MetricsOnRanks, AucIsTheShareOfPairsOrderedRightly) {
  const Samples s = random_samples(701, 0, 1);
  EXPECT_NEAR(*evaluate(s, GetParam()).auc, auc_of_all_pairs(s), 1e-14);
}

TEST_P(MetricsOnRanks, TiesCountHalf) {
  for (const int levels : {2, 3, 17}) {
    const Samples s = random_samples(503, levels, 2);
    EXPECT_NEAR(*evaluate(s, GetParam()).auc, auc_of_all_pairs(s), 1e-14) << levels;
  }
}

TEST_P(MetricsOnRanks, AProbabilityOfOneHalfCountsAsPositive) {
  const Samples s{{0.5f, 0.5f, 0.5f, 0.1f}, {1, 1, 0, 0}};
  EXPECT_EQ(evaluate(s, GetParam()).accuracy, 0.75);
}

TEST_P(MetricsOnRanks, AucOfManySamplesIsThatOfASortOfEverything) {
  for (const int levels : {0, 100, 65536}) {
    const Samples s = random_samples(60000, levels, 3);
    EXPECT_NEAR(*evaluate(s, GetParam()).auc, auc_of_sorted(s), 1e-12) << levels;
  }
}

TEST_P(MetricsOnRanks, AucHasTheSameBitsOnAnyNumberOfRanks) {
  const Samples s = random_samples(20011, 5000, 4);
  EXPECT_EQ(*evaluate(s, GetParam()).auc, *evaluate(s, 1).auc);
}

TEST_P(MetricsOnRanks, EqualProbabilitiesGiveAnAucOfAHalf) {
  Samples s = random_samples(1000, 0, 5);
  std::fill(s.p.begin(), s.p.end(), 0.26f);
  EXPECT_EQ(evaluate(s, GetParam()).auc, 0.5);
}

TEST_P(MetricsOnRanks, PerfectOrderGivesAnAucOfOneAndItsReverseZero) {
  Samples s = random_samples(257, 0, 6);
  for (size_t i = 0; i < s.p.size(); ++i) s.y[i] = s.p[i] > 0.4f ? 1.0f : 0.0f;
  EXPECT_EQ(evaluate(s, GetParam()).auc, 1.0);
  for (float& y : s.y) y = 1 - y;
  EXPECT_EQ(evaluate(s, GetParam()).auc, 0.0);
}

TEST_P(MetricsOnRanks, NeighbouringFloatsAreDistinct) {
  Samples s;
  float p = 0.02597f;
  for (int i = 0; i < 300; ++i) {
    s.p.push_back(p);
    s.y.push_back(i % 3 == 0 ? 1.0f : 0.0f);
    p = std::nextafter(p, 1.0f);
  }
  EXPECT_NEAR(*evaluate(s, GetParam()).auc, auc_of_all_pairs(s), 1e-14);
}

TEST_P(MetricsOnRanks, OneClassAloneHasNoAuc) {
  Samples s = random_samples(40, 0, 7);
  for (const float label : {0.0f, 1.0f}) {
    std::fill(s.y.begin(), s.y.end(), label);
    const EvalResult result = evaluate(s, GetParam());
    EXPECT_FALSE(result.auc.has_value());
    EXPECT_EQ(result.samples, 40);
    EXPECT_TRUE(std::isfinite(result.log_loss));
  }
}

TEST_P(MetricsOnRanks, NoSamplesGiveZeros) {
  const EvalResult result = evaluate({}, GetParam());
  EXPECT_EQ(result.samples, 0);
  EXPECT_FALSE(result.auc.has_value());
  EXPECT_EQ(result.log_loss, 0);
  EXPECT_EQ(result.calibration, 0);
}

TEST_P(MetricsOnRanks, FewerSamplesThanRanksAreEnough) {
  const Samples s{{0.25f, 0.75f}, {0, 1}};
  const EvalResult result = evaluate(s, GetParam());
  EXPECT_EQ(result.auc, 1.0);
  EXPECT_EQ(result.samples, 2);
  EXPECT_EQ(result.accuracy, 1.0);
}

TEST_P(MetricsOnRanks, LogLossAccuracyAndCalibrationFollowTheirFormulas) {
  const Samples s = random_samples(999, 0, 8);
  double loss = 0, p_sum = 0, y_sum = 0, right = 0;
  for (size_t i = 0; i < s.p.size(); ++i) {
    const double p = s.p[i];
    loss -= s.y[i] == 1 ? std::log(p) : std::log(1 - p);
    p_sum += p;
    y_sum += s.y[i];
    right += (p >= 0.5) == (s.y[i] >= 0.5f);
  }
  const EvalResult result = evaluate(s, GetParam());
  EXPECT_NEAR(result.log_loss, loss / 999, 1e-13);
  EXPECT_NEAR(result.calibration, p_sum / y_sum, 1e-13);
  EXPECT_EQ(result.accuracy, right / 999);
}

TEST_P(MetricsOnRanks, ABadProbabilityIsTheSameErrorOnEveryRank) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -0.25f, 1.5f}) {
    Samples s = random_samples(50, 0, 9);
    s.p[49] = bad;
    run_on_threads(static_cast<int>(GetParam()), [&](Communicator& comm) {
      const auto r = static_cast<size_t>(comm.rank());
      const size_t begin = r * 50 / GetParam(), end = (r + 1) * 50 / GetParam();
      const std::string error = run_error_of([&] {
        evaluate_metrics(comm, View<const float>(s.p).subspan(begin, end - begin),
                         s.targets(begin, end - begin));
      });
      EXPECT_THAT(error, ::testing::HasSubstr(fmt::format("of rank {}", GetParam() - 1)));
    });
  }
}

TEST_P(MetricsOnRanks, ABadLabelIsNamedWithItsRankAndSample) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Samples s = random_samples(50, 0, 9);
    s.y[49] = bad;
    run_on_threads(static_cast<int>(GetParam()), [&](Communicator& comm) {
      const auto r = static_cast<size_t>(comm.rank());
      const size_t begin = r * 50 / GetParam(), end = (r + 1) * 50 / GetParam();
      const std::string text = error_of([&] {
        evaluate_metrics(comm, View<const float>(s.p).subspan(begin, end - begin),
                         s.targets(begin, end - begin));
      });
      const size_t last = GetParam() - 1, sample = 49 - last * 50 / GetParam();
      EXPECT_EQ(text,
                fmt::format("evaluation: sample {} of rank {} has probability {}, label {} and "
                            "weight 1; a probability lies in [0, 1], a label is finite, a "
                            "weight is finite and not negative",
                            sample, last, s.p[49], bad));
    });
  }
}

TEST(Metrics, EmptyRanksAndUnequalCountsChangeNothing) {
  const Samples s = random_samples(1000, 50, 10);
  const double expected = *evaluate(s, 1).auc;
  EXPECT_EQ(*evaluate_cut(s, {0, 0, 1000}).auc, expected);
  EXPECT_EQ(*evaluate_cut(s, {0, 1000, 1000, 1000}).auc, expected);
  EXPECT_EQ(*evaluate_cut(s, {0, 1, 1, 999, 1000}).auc, expected);
}

TEST(Metrics, OtherNumbersOfLabelsOrWeightsAreADefect) {
  run_on_threads(1, [](Communicator& comm) {
    const std::vector<float> two(2, 0.5f), three(3, 0.5f);
    const auto failure = [&](View<const float> p, const Targets& targets) -> std::string {
      return error_of([&] { evaluate_metrics(comm, p, targets); });
    };
    EXPECT_EQ(failure(two, {two, {}}), "");
    EXPECT_EQ(failure(two, {two, two}), "");
    EXPECT_THAT(failure(two, {three, {}}), ::testing::HasSubstr("2 probabilities, 3 labels"));
    EXPECT_THAT(failure(two, {two, three}), ::testing::HasSubstr("3 weights"));
  });
}

TEST(Metrics, WithoutAPositiveLabelThereIsNoCalibration) {
  EXPECT_TRUE(std::isinf(evaluate({{0.2f, 0.7f}, {0, 0}}, 1).calibration));
  EXPECT_TRUE(std::isnan(evaluate({{0, 0}, {0, 0}}, 1).calibration));
}

/// Also if the scores of ranks, and of all samples, are close together.
TEST(Metrics, EveryRankSortsAsManySamples) {
  constexpr size_t kRanks = 4, kSamples = 20000;
  for (const int power : {1, 6}) {
    Samples s = random_samples(kSamples, 0, 11);
    for (float& p : s.p) p = std::pow(p, static_cast<float>(power));
    std::sort(s.p.begin(), s.p.end());
    run_on_threads(kRanks, [&](Communicator& comm) {
      int64_t most = 0;  // bytes that an exchange brings to this rank
      ChangedExchanges measured(comm, [&](Communicator& inner, Exchange exchange, int) {
        most = std::max(most, exchange.layout.receive_total());
        return inner.start_exchange(std::move(exchange));
      });
      const size_t begin = static_cast<size_t>(comm.rank()) * kSamples / kRanks;
      evaluate_metrics(measured, View<const float>(s.p).subspan(begin, kSamples / kRanks),
                       s.targets(begin, kSamples / kRanks));
      EXPECT_NEAR(static_cast<double>(most), 4.0 * kSamples / kRanks, 40) << power;
    });
  }
}

TEST(Metrics, AWrongCertaintyGivesAFiniteLoss) {
  const Samples s{{0, 1}, {1, 0}};
  const EvalResult result = evaluate(s, 1);
  EXPECT_NEAR(result.log_loss, -std::log(1e-15), 1e-1);
  EXPECT_EQ(result.auc, 0.0);
}

TEST(Metrics, NegativeZeroTiesWithZero) {
  const Samples s{{-0.0f, 0.0f}, {1, 0}};
  EXPECT_EQ(evaluate(s, 1).auc, 0.5);
}

TEST(Metrics, LabelsBetweenTheClassesWeighTheLossAndCountAsPositiveFromAHalf) {
  const Samples s{{0.2f, 0.7f, 0.1f}, {0.5f, 0.8f, 0.25f}};
  const EvalResult result = evaluate(s, 1);
  double loss = 0;
  for (size_t i = 0; i < 3; ++i) {
    const double p = s.p[i], y = s.y[i];
    loss -= y * std::log(p) + (1 - y) * std::log(1 - p);
  }
  EXPECT_NEAR(result.log_loss, loss / 3, 1e-13);
  EXPECT_EQ(result.auc, 1.0);
  EXPECT_EQ(result.accuracy, 2.0 / 3.0);
}

}  // namespace
}  // namespace dlrm
