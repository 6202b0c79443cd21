#include "serve/json_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/core/error.h"

namespace dlrm::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Inputs three_features() {
  ModelConfig model;
  model.dense_features = 2;
  model.tables.resize(2);
  model.tables[0].rows = 10;
  model.tables[0].features = {{"C1"}, {"tags"}};
  model.tables[1].rows = 4;
  model.tables[1].features = {{"C2"}};
  return inputs_of(model);
}

/// The reason for which a line is refused. It must leave the samples before it as they are.
std::string refusal_of_json(const std::string& text) {
  Samples samples;
  append_json_sample(R"({"dense": [1, 2], "ids": {"C1": [3]}})", three_features(), samples);
  const Samples before = samples;
  try {
    append_json_sample(text, three_features(), samples);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_EQ(samples.size, before.size);
    EXPECT_EQ(samples.dense, before.dense);
    EXPECT_EQ(samples.ids, before.ids);
    EXPECT_EQ(samples.offsets, before.offsets);
    return error.what();
  }
  return "";
}

TEST(JsonSamples, BagsAreOrderedAsInTheConfigAndMissingOnesAreEmpty) {
  Samples samples;
  append_json_sample(R"({"ids": {"C2": [3], "C1": [9, 0, 9]}, "dense": [0.5, -2]})",
                     three_features(), samples);
  append_json_sample(R"({"dense": [1, 2.5e0], "ids": {"tags": [4], "C1": []}})", three_features(),
                     samples);
  append_json_sample(R"({"dense": [0, 0]})", three_features(), samples);
  EXPECT_EQ(samples.size, 3);
  EXPECT_THAT(samples.dense, ElementsAre(0.5f, -2, 1, 2.5f, 0, 0));
  EXPECT_THAT(samples.ids, ElementsAre(9, 0, 9, 3, 4));
  EXPECT_THAT(samples.offsets, ElementsAre(0, 3, 3, 4, 4, 5, 5, 5, 5, 5));
}

TEST(JsonSamples, MinusZeroIsTheIdZero) {
  Samples samples;
  append_json_sample(R"({"dense": [1, 2], "ids": {"C1": [-0]}})", three_features(), samples);
  EXPECT_THAT(samples.ids, ElementsAre(0));
}

TEST(JsonSamples, AModelWithoutDenseFeatures) {
  Inputs inputs = three_features();
  inputs.dense = 0;
  Samples samples;
  append_json_sample("{}", inputs, samples);
  append_json_sample(R"({"dense": []})", inputs, samples);
  EXPECT_EQ(samples.size, 2);
}

TEST(JsonSamples, TextThatIsNoSample) {
  EXPECT_EQ(refusal_of_json(R"({"dense": [1, 2)"), "not JSON: error at byte 16");
  EXPECT_EQ(refusal_of_json(""), "not JSON: error at byte 1");
  EXPECT_EQ(refusal_of_json(R"({"dense": [1, NaN]})"), "not JSON: error at byte 15");
  EXPECT_EQ(refusal_of_json(R"({"dense": [1, 1e999]})"), "not JSON: a number is out of range");
  EXPECT_THAT(refusal_of_json("[1, 2]"), HasSubstr("a list; needs an object such as {\"dense\""));
  EXPECT_EQ(refusal_of_json(R"({"dense": [1, 2], "id": {}})"),
            "unknown key \"id\"; a sample has dense, ids and weights");
}

TEST(JsonSamples, DenseValues) {
  EXPECT_EQ(refusal_of_json("{}"), "dense: 0 values; the model takes 2");
  EXPECT_EQ(refusal_of_json(R"({"dense": [1, 2, 3]})"), "dense: 3 values; the model takes 2");
  EXPECT_EQ(refusal_of_json(R"({"dense": 5})"), "dense: 5; needs a list of 2 numbers");
  EXPECT_EQ(refusal_of_json(R"({"dense": [1, "2"]})"), "dense[1]: \"2\"; needs a finite number");
  EXPECT_EQ(refusal_of_json(R"({"dense": [null, 2]})"), "dense[0]: null; needs a finite number");
  EXPECT_THAT(refusal_of_json(R"({"dense": [1e39, 2]})"),
              HasSubstr("dense[0]: 1e+39; needs a finite"));
}

TEST(JsonSamples, Ids) {
  const auto ids = [](const std::string& text) {
    return refusal_of_json(R"({"dense": [1, 2], "ids": )" + text + "}");
  };
  EXPECT_EQ(ids(R"({"C1": [9, 10]})"), "ids.C1[1]: 10; needs a whole number from 0 to 9");
  EXPECT_EQ(ids(R"({"tags": [10]})"), "ids.tags[0]: 10; needs a whole number from 0 to 9");
  EXPECT_EQ(ids(R"({"C2": [-1]})"), "ids.C2[0]: -1; needs a whole number from 0 to 3");
  EXPECT_THAT(ids(R"({"C1": [18446744073709551615]})"), HasSubstr("from 0 to 9"));
  EXPECT_THAT(ids(R"({"C1": [1.0]})"), HasSubstr("ids.C1[0]: 1.0; needs a whole number"));
  EXPECT_THAT(ids(R"({"C1": ["1"]})"), HasSubstr("ids.C1[0]: \"1\"; needs a whole number"));
  EXPECT_EQ(ids(R"({"C1": 1})"), "ids.C1: 1; needs a list");
  EXPECT_EQ(ids("[1]"), "ids: a list; needs an object, with a list for each feature");
  EXPECT_EQ(ids(R"({"tag": [1]})"), "ids: the model has no feature \"tag\"; the nearest is tags");
}

TEST(JsonSamples, LongValuesAreShortened) {
  const std::string text = refusal_of_json(R"({"dense": [1, ")" + std::string(1000, 'x') + "\"]}");
  EXPECT_LT(text.size(), 100u);
  EXPECT_EQ(refusal_of_json(R"({"dense": [1, ")" + std::string(38, 'x') + "\"]}"),
            "dense[1]: \"" + std::string(38, 'x') + "\"; needs a finite number");
  EXPECT_EQ(refusal_of_json(R"({"dense": [1, ")" + std::string(39, 'x') + "\"]}"),
            "dense[1]: \"" + std::string(39, 'x') + "...; needs a finite number");
  EXPECT_EQ(refusal_of_json(R"({"dense": {"0": 1}})"),
            "dense: an object; needs a list of 2 numbers");
}

/// The model of three_features(), where ids of tags have weights.
Inputs weighted_tags() {
  Inputs inputs = three_features();
  inputs.weighted = inputs.features[1].weighted = true;
  return inputs;
}

std::string refusal_of_weights(const std::string& text) {
  Samples samples;
  try {
    append_json_sample(text, weighted_tags(), samples);
  } catch (const Error& error) {
    EXPECT_TRUE(samples.weights.empty() && samples.ids.empty());
    return error.what();
  }
  return "";
}

TEST(JsonSamples, WeightsFollowTheirIds) {
  Samples samples;
  append_json_sample(
      R"({"dense": [1, 2], "ids": {"tags": [4, 4], "C1": [7], "C2": [1]}, "weights": {"tags": [0.5, -2]}})",
      weighted_tags(), samples);
  append_json_sample(R"({"dense": [1, 2], "ids": {"C1": [3]}})", weighted_tags(), samples);
  EXPECT_THAT(samples.ids, ElementsAre(7, 4, 4, 1, 3));
  EXPECT_THAT(samples.weights, ElementsAre(1, 0.5f, -2, 1, 1));
}

TEST(JsonSamples, WeightsAreFiniteAndOneForEachId) {
  const std::string begin = R"({"dense": [1, 2], "ids": {"C1": [1], "tags": [4, 4]})";
  EXPECT_EQ(refusal_of_weights(begin + "}"),
            "weights.tags: 0 values; needs a list of 2 numbers, one for each id");
  EXPECT_EQ(refusal_of_weights(begin + R"(, "weights": {"tags": [1]}})"),
            "weights.tags: 1 values; needs a list of 2 numbers, one for each id");
  EXPECT_EQ(refusal_of_weights(begin + R"(, "weights": {"tags": [1, "x"]}})"),
            "weights.tags[1]: \"x\"; needs a finite number");
  EXPECT_EQ(refusal_of_weights(begin + R"(, "weights": {"tags": [1, 1], "C1": [1]}})"),
            "weights.C1: the feature has no weights");
  EXPECT_EQ(refusal_of_json(R"({"dense": [1, 2], "weights": {"tags": []}})"),
            "weights.tags: the feature has no weights");
}

}  // namespace
}  // namespace dlrm::serve
