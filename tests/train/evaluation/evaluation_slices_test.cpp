#include "dlrm/train/evaluation_slices.h"

#include <map>
#include <mutex>
#include <random>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/error.h"

namespace dlrm {
namespace {

ModelConfig model_of(const std::vector<std::string>& features) {
  ModelConfig model;
  TableConfig one, two;
  one.features = {{features[0], 2, Pooling::kSum}};
  two.features = {{features[1], 1, Pooling::kSum}, {features[2], 1, Pooling::kSum}};
  model.tables = {one, two};
  return model;
}

struct Sample {
  int64_t id = 0;  ///< -1: none
  float probability = 0, label = 0, weight = 1;
};

/// Samples of 30 ids, some of them without one. Lower ids have more samples.
std::vector<Sample> random_samples(size_t count) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(0, 1);
  std::vector<Sample> samples(count);
  for (Sample& sample : samples) {
    const float r = uniform(random);
    sample.id = static_cast<int64_t>(31 * r * r) - 1;
    sample.probability = uniform(random);
    sample.label = uniform(random) < sample.probability ? 1.0f : 0.0f;
    sample.weight = 2 * uniform(random);
  }
  return samples;
}

/// A batch of samples whose second of three features has the samples' ids.
Batch batch_of(View<const Sample> samples) {
  Batch batch;
  const auto size = static_cast<int64_t>(samples.size());
  batch.global_size = size;
  batch.local = {0, size};
  batch.offsets.push_back(0);
  const auto end_bag = [&] { batch.offsets.push_back(std::ssize(batch.ids)); };
  for (size_t i = 0; i < samples.size(); ++i) {
    batch.ids.insert(batch.ids.end(), {100, 200});
    end_bag();
  }
  for (const Sample& sample : samples) {
    if (sample.id >= 0) batch.ids.push_back(sample.id);
    end_bag();
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    batch.ids.push_back(7);
    end_bag();
  }
  return batch;
}

/// Ranks take turns with batches of 16 samples.
SlicedResult slices_on(int ranks, const std::vector<Sample>& samples) {
  constexpr size_t kBatch = 16;
  std::mutex mutex;
  SlicedResult result;
  run_on_threads(ranks, [&](Communicator& comm) {
    EvaluationSlices slices(model_of({"A", "B", "C"}), "B");
    std::vector<float> probabilities;
    TargetList targets;
    for (size_t b = 0; b * kBatch < samples.size(); ++b) {
      if (static_cast<int>(b) % comm.size() != comm.rank()) continue;
      const size_t size = std::min(kBatch, samples.size() - b * kBatch);
      const View<const Sample> part = View<const Sample>(samples).subspan(b * kBatch, size);
      slices.see(batch_of(part));
      for (const Sample& sample : part) {
        probabilities.push_back(sample.probability);
        targets.append({{&sample.label, 1}, {&sample.weight, 1}});
      }
    }
    slices.finish(comm, probabilities, targets.view());
    const std::lock_guard lock(mutex);
    if (comm.rank() == comm.size() - 1) result = slices.result();
  });
  return result;
}

/// The metrics of the samples with an id, by one rank.
EvalResult result_of(const std::vector<Sample>& samples, int64_t id) {
  std::vector<float> probabilities;
  TargetList targets;
  for (const Sample& sample : samples) {
    if (sample.id != id) continue;
    probabilities.push_back(sample.probability);
    targets.append({{&sample.label, 1}, {&sample.weight, 1}});
  }
  EvalResult result;
  run_on_threads(1, [&](Communicator& comm) {
    result = evaluate_metrics(comm, probabilities, targets.view());
  });
  return result;
}

TEST(EvaluationSlices, HaveTheMetricsOfTheSamplesOfEachFrequentIdOnAnyNumberOfRanks) {
  const std::vector<Sample> samples = random_samples(1003);
  std::map<int64_t, int64_t> counts;
  for (const Sample& sample : samples) ++counts[sample.id];
  ASSERT_EQ(counts.size(), 31);
  for (const int ranks : {1, 3}) {
    const SlicedResult sliced = slices_on(ranks, samples);
    EXPECT_EQ(sliced.feature, "B");
    EXPECT_EQ(sliced.left_out, 31 - EvaluationSlices::kMost);
    ASSERT_EQ(std::ssize(sliced.slices), EvaluationSlices::kMost);
    std::map<int64_t, int64_t> others = counts;
    int64_t before = std::ssize(samples), id_before = -2;
    for (const EvalSlice& slice : sliced.slices) {
      const int64_t id = slice.id.value_or(-1);
      SCOPED_TRACE(id);
      const EvalResult expected = result_of(samples, id);
      EXPECT_EQ(slice.result.samples, counts.at(id));
      ASSERT_EQ(slice.result.auc.has_value(), expected.auc.has_value());
      EXPECT_NEAR(slice.result.auc.value_or(0), expected.auc.value_or(0), 1e-13);
      EXPECT_NEAR(slice.result.log_loss, expected.log_loss, 1e-12);
      EXPECT_NEAR(slice.result.calibration, expected.calibration, 1e-12);
      EXPECT_TRUE(slice.result.samples < before ||
                  (slice.result.samples == before && id > id_before));
      before = slice.result.samples;
      id_before = id;
      others.erase(id);
    }
    for (const auto& [id, count] : others) EXPECT_LE(count, before) << id;
  }
}

TEST(EvaluationSlices, ARankWithoutSamplesTakesPart) {
  const std::vector<Sample> samples{{4, 0.25f, 0, 1}, {4, 0.75f, 1, 1}, {2, 0.5f, 1, 1}};
  const SlicedResult sliced = slices_on(3, samples);
  ASSERT_EQ(sliced.slices.size(), 2);
  EXPECT_EQ(sliced.slices[0].id, 4);
  EXPECT_EQ(sliced.slices[0].result.auc, 1);
  EXPECT_EQ(sliced.slices[1].id, 2);
  EXPECT_FALSE(sliced.slices[1].result.auc);
  EXPECT_EQ(sliced.left_out, 0);
}

TEST(EvaluationSlices, OfAnotherFeatureOrOtherSamplesAreRefused) {
  EXPECT_THROW(EvaluationSlices(model_of({"A", "B", "C"}), "D"), Error);
  const std::vector<Sample> samples = random_samples(3);
  run_on_threads(1, [&](Communicator& comm) {
    for (const size_t size : {2, 4}) {
      EvaluationSlices slices(model_of({"A", "B", "C"}), "B");
      slices.see(batch_of(samples));
      const std::vector<float> p(size, 0.5f), y(size, 1.0f), three(3, 1.0f);
      EXPECT_THROW(slices.finish(comm, p, {View<const float>(y), {}}), Error) << size;
      EXPECT_THROW(slices.finish(comm, p, {View<const float>(three), {}}), Error) << size;
    }
  });
}

/// Of feature f of five, sample i of the first batch has the ids 10f + i and 99, and of the second
/// batch 10f alone.
TEST(EvaluationSlices, AreThoseOfTheNamedFeatureOfAnyTable) {
  ModelConfig model;
  const std::vector<std::vector<std::string>> names = {{"A"}, {"D", "B"}, {"E", "C"}};
  for (const auto& of_table : names) {
    model.tables.emplace_back();
    for (const std::string& name : of_table) {
      model.tables.back().features.push_back({name, 1, Pooling::kSum});
    }
  }
  const auto comm = make_self_comm();
  int64_t feature = 0;
  for (const char* name : {"A", "D", "B", "E", "C"}) {
    EvaluationSlices slices(model, name);
    for (const int64_t size : {3, 2}) {
      Batch batch;
      batch.global_size = size;
      batch.local = {0, size};
      batch.offsets = {0};
      for (int64_t f = 0; f < 5; ++f) {
        for (int64_t i = 0; i < size; ++i) {
          batch.ids.push_back(10 * f + (size == 3 ? i : 0));
          if (size == 3) batch.ids.push_back(99);
          batch.offsets.push_back(std::ssize(batch.ids));
        }
      }
      slices.see(batch);
    }
    const std::vector<float> p = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f}, y = {1, 0, 0, 1, 0};
    slices.finish(*comm, p, {View<const float>(y), {}});
    EXPECT_EQ(slices.result().feature, name);
    std::map<int64_t, int64_t> samples;
    for (const EvalSlice& slice : slices.result().slices) {
      samples[slice.id.value_or(-1)] = slice.result.samples;
    }
    const std::map<int64_t, int64_t> expected = {
        {10 * feature, 3}, {10 * feature + 1, 1}, {10 * feature + 2, 1}};
    EXPECT_EQ(samples, expected) << name;
    ++feature;
  }
}

TEST(EvaluationSlices, AnEvaluationWithoutSamplesHasNone) {
  EXPECT_TRUE(slices_on(2, {}).slices.empty());
}

}  // namespace
}  // namespace dlrm
