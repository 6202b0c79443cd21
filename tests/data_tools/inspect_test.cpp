#include "inspect.h"

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/core/error.h"
#include "dlrm/data/dataset_file.h"
#include "dlrm/data/dataset_writer.h"

#include "criteo_fixture.h"
#include "data/dataset_fixture.h"

namespace dlrm {
namespace {

using ::testing::HasSubstr;

/// Three samples in each of two files: labels 0, 0.5, 1; dense i and -2·i; one id of 200 rows, and
/// bags of 0, 2 and 3 ids.
class Inspected : public InFolder {
 protected:
  DatasetLayout layout() const {
    DatasetLayout made;
    made.dense = 2;
    made.label = LabelType::kFloat32;
    made.features = {{"C10", 1, 200, IdType::kInt32}, {"C2", 0, 8, IdType::kInt64}};
    return made;
  }
  void write_file(const std::string& name, float shift, int32_t step,
                  const std::vector<float>& weights = {}) const {
    DatasetLayout made = layout();
    made.weighted = !weights.empty();
    DatasetWriter writer(path(name), made);
    const std::vector<float> labels{0, 0.5f, 1};
    const std::vector<float> dense{shift,          -2 * shift, shift + 1,
                                   -2 * shift - 2, shift + 2,  -2 * shift - 4};
    const std::vector<int32_t> ids{0, step, 2 * step}, lengths{0, 2, 3};
    const std::vector<int64_t> wide{1, 1, 6, 1, 0};
    DatasetBlock block{3, labels, dense, {}, weights};
    block.bags.resize(2);
    block.bags[0].ids = ids;
    block.bags[1].wide_ids = wide;
    block.bags[1].lengths = lengths;
    writer.append(block);
    writer.finish();
  }
};

TEST_F(Inspected, EveryFigureIsThatOfTheData) {
  std::filesystem::create_directory(path("data"));
  write_file("data/a.h5", 1, 50);
  write_file("data/b.h5", 5, 0);
  const Inspection seen = inspect_dataset(path("data"));
  EXPECT_EQ(seen.path, path("data"));
  EXPECT_EQ(seen.files, 2);
  EXPECT_EQ(seen.samples, 6);
  EXPECT_EQ(seen.files_with_checksums, 2);
  EXPECT_EQ(seen.label_mean, 0.5);
  EXPECT_EQ(seen.dense_min, (std::vector<float>{1, -14}));
  EXPECT_EQ(seen.dense_max, (std::vector<float>{7, -2}));
  EXPECT_EQ(seen.dense_mean, (std::vector<double>{4, -8}));
  ASSERT_EQ(seen.features.size(), 2u);
  const FeatureStatistics& bags = seen.features[0];  // C2 before C10
  EXPECT_EQ(bags.name, "C2");
  EXPECT_EQ(bags.rows, 8);
  EXPECT_EQ(bags.ids, 10);
  EXPECT_EQ(bags.hotness, 0);
  EXPECT_EQ(bags.longest_bag, 3);
  EXPECT_EQ(bags.empty_bags, 2);
  EXPECT_EQ(bags.largest_id, 6);
  EXPECT_EQ(bags.distinct, 3);
  EXPECT_EQ(bags.top_share, 0.6);
  EXPECT_EQ(bags.top_hundred, 1);
  const FeatureStatistics& one = seen.features[1];
  EXPECT_EQ(one.rows, 200);
  EXPECT_EQ(one.ids, 6);
  EXPECT_EQ(one.hotness, 1);
  EXPECT_EQ(one.longest_bag, 1);
  EXPECT_EQ(one.empty_bags, 0);
  EXPECT_EQ(one.largest_id, 100);
  EXPECT_EQ(one.distinct, 3);
  EXPECT_DOUBLE_EQ(one.top_share, 4 / 6.0);
  EXPECT_EQ(describe_inspection(seen), path("data") + R"(: 6 samples in 2 files, label mean 0.500000
checksums: verified
dense 0   min 1            max 7            mean 4
dense 1   min -14          max -2           mean -8
feature                          rows  ids/bag   longest   empty   largest id     distinct   top 1 top 100
C2                                  8     1.67         3       2            6            3  0.6000  1.0000
C10                               200     1.00         1       0          100            3  0.6667  1.0000
good
)");
}

TEST_F(Inspected, WeightsAreDescribed) {
  std::filesystem::create_directory(path("data"));
  write_file("data/a.h5", 1, 50, {0.5f, 2, 1});
  write_file("data/b.h5", 5, 0, {0.25f, 4, 1.25f});
  EXPECT_THAT(describe_inspection(inspect_dataset(path("data"))),
              HasSubstr("\nweight    min 0.25         max 4            mean 1.5\n"));
}

TEST_F(Inspected, EachOfSeveralLabelsIsDescribed) {
  DatasetLayout made;
  made.label = LabelType::kFloat32;
  made.labels = 2;
  const auto write_labels = [&](const std::vector<float>& labels) {
    DatasetWriter writer(path("a.h5"), made);
    writer.append({static_cast<int64_t>(labels.size() / 2), labels, {}, {}, {}});
    writer.finish();
  };
  write_labels({0, std::nanf(""), 0.5f, 1, 1, std::nanf("")});
  const Inspection seen = inspect_dataset(path("a.h5"));
  EXPECT_EQ(seen.label_mean, 0.625);
  ASSERT_EQ(seen.labels.size(), 2u);
  EXPECT_EQ(seen.labels[0].mean, 0.5);
  EXPECT_EQ(seen.labels[0].missing, 0);
  EXPECT_EQ(seen.labels[1].mean, 1);
  EXPECT_EQ(seen.labels[1].missing, 2);
  EXPECT_THAT(describe_inspection(seen), HasSubstr("\nlabel 0   mean 0.500000    missing 0\n"
                                                   "label 1   mean 1.000000    missing 2\n"));
  write_labels({0, 0, 0, 2});
  EXPECT_THAT([&] { inspect_dataset(path("a.h5")); },
              ::testing::ThrowsMessage<Error>(HasSubstr("record 1 (counted from 0): label 2;")));
}

TEST_F(Inspected, ADamagedColumnOfAnyFeatureIsFound) {
  for (const char* name : {"C10", "C2"}) {
    write_file("a.h5", 1, 50);
    std::string whole = content("a.h5");
    {
      const DatasetFile file(path("a.h5"));
      const MappedFeature& feature = *file.find(name);
      const auto bytes = static_cast<size_t>(feature.count * bytes_of(feature.type));
      const size_t at = whole.find({reinterpret_cast<const char*>(feature.ids), bytes});
      ASSERT_NE(at, std::string::npos);
      whole[at] = static_cast<char>(whole[at] ^ 2);  // still an id of its table
    }
    write("a.h5", whole);
    EXPECT_THAT(error_of([&] { inspect_dataset(path("a.h5")); }),
                HasSubstr(fmt::format("/sparse/{}/ids is damaged", name)));
  }
}

/// 300 ids of which the first occur twice.
TEST_F(Inspected, TheHundredMostFrequentIdsHaveAShare) {
  DatasetLayout made;
  made.features = {{"f", 1, 500, IdType::kInt32}};
  DatasetWriter writer(path("a.h5"), made);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 240; ++i) ids.push_back(i);
  for (int32_t i = 0; i < 60; ++i) ids.push_back(4 * i);
  const std::vector<float> labels(300, 1.0f);
  DatasetBlock block{300, labels, {}, {}};
  block.bags.resize(1);
  block.bags[0].ids = ids;
  writer.append(block);
  writer.finish();
  const FeatureStatistics f = inspect_dataset(path("a.h5")).features[0];
  EXPECT_EQ(f.distinct, 240);
  EXPECT_DOUBLE_EQ(f.top_share, 2 / 300.0);
  EXPECT_DOUBLE_EQ(f.top_hundred, (60 * 2 + 40) / 300.0);
}

TEST_F(Inspected, ADatasetWithoutSamplesIsDescribed) {
  DatasetLayout made = layout();
  made.samples = -1;
  DatasetWriter(path("none.h5"), made).finish();
  const Inspection seen = inspect_dataset(path("none.h5"));
  EXPECT_THAT(
      describe_inspection(seen),
      HasSubstr(": 0 samples in 1 file, label mean 0.000000\nchecksums: verified\nfeature"));
  for (const FeatureStatistics& f : seen.features) {
    EXPECT_EQ(f.ids, 0);
    EXPECT_EQ(f.largest_id, -1);
    EXPECT_EQ(f.distinct, -1);
    EXPECT_EQ(f.top_share, 0);
    EXPECT_EQ(f.top_hundred, 0);
  }
}

/// A file whose bags have these lengths, of which some are negative, and as many ids as their sum.
class BadOffsets : public InFolder {
 protected:
  std::string error(const std::vector<int32_t>& lengths, size_t count) const {
    DatasetLayout made;
    made.features = {{"f", 0, 5, IdType::kInt32}};
    DatasetWriter writer(path("a.h5"), made);
    const std::vector<float> labels(lengths.size(), 1.0f);
    const std::vector<int32_t> ids(count, 4);
    DatasetBlock block{static_cast<int64_t>(lengths.size()), labels, {}, {}};
    block.bags.resize(1);
    block.bags[0].ids = ids;
    block.bags[0].lengths = lengths;
    writer.append(block);
    writer.finish();
    const std::string error = usage_error_of([&] { inspect_dataset(path("a.h5")); });
    return error.empty() ? "" : error.substr(path("a.h5").size());
  }
};

TEST_F(BadOffsets, AreNamedWithTheirRecord) {
  EXPECT_EQ(error({2, 0, 3}, 5), "");
  EXPECT_EQ(error({2, -1, 3}, 4),
            ": record 1 (counted from 0), feature f: offsets 2 to 1; they "
            "must rise and stay within 4 ids");
  EXPECT_EQ(error({0, 5, -1}, 4),
            ": record 1 (counted from 0), feature f: offsets 0 to 5; they "
            "must rise and stay within 4 ids");
}

TEST_F(Inspected, IdsOfManyRowsAreNotCounted) {
  DatasetLayout made;
  made.features = {{"f", 1, (int64_t{1} << 28) + 1, IdType::kInt32}};
  DatasetWriter writer(path("a.h5"), made);
  const std::vector<float> labels(3, 1.0f);
  const std::vector<int32_t> ids{7, 1 << 28, 7};
  DatasetBlock block{3, labels, {}, {}};
  block.bags.resize(1);
  block.bags[0].ids = ids;
  writer.append(block);
  writer.finish();
  const FeatureStatistics f = inspect_dataset(path("a.h5")).features[0];
  EXPECT_EQ(f.largest_id, 1 << 28);
  EXPECT_EQ(f.ids, 3);
  EXPECT_EQ(f.distinct, -1);
  EXPECT_EQ(f.top_share, 0);
}

TEST_F(Inspected, FeaturesAreSortedByNumbersOfAnyLength) {
  DatasetLayout made;
  const std::string large = "D" + std::string(20, '1');  // more digits than an integer has
  const std::vector<std::string> sorted{"2",   "10", "C1a3", "C1a20", "C2",
                                        "C10", "Ca", "D9",   large,   large + "2"};
  for (auto name = sorted.rbegin(); name != sorted.rend(); ++name) {
    made.features.push_back({*name, 1, 5, IdType::kInt32});
  }
  made.samples = 0;
  DatasetWriter(path("a.h5"), made).finish();
  std::vector<std::string> names;
  for (const FeatureStatistics& f : inspect_dataset(path("a.h5")).features) names.push_back(f.name);
  EXPECT_EQ(names, sorted);
}

/// The error of a dataset of three samples in which one value is bad.
class BadRecord : public InFolder {
 protected:
  std::string error(float label, float dense, int64_t id, float weight = 1) const {
    DatasetLayout made;
    made.dense = 2;
    made.weighted = true;
    made.label = LabelType::kFloat32;
    made.features = {{"f", 2, 5, IdType::kInt64}};
    DatasetWriter writer(path("a.h5"), made);
    const std::vector<float> labels{0, label, 1}, numbers{0, 0, 0, dense, 0, 0};
    const std::vector<float> weights{0, weight, 2};
    const std::vector<int64_t> ids{0, 4, 0, id, 0, 0};
    DatasetBlock block{3, labels, numbers, {}, weights};
    block.bags.resize(1);
    block.bags[0].wide_ids = ids;
    writer.append(block);
    writer.finish();
    const std::string error = usage_error_of([&] { inspect_dataset(path("a.h5")); });
    return error.empty() ? "" : error.substr(path("a.h5").size());
  }
};

TEST_F(BadRecord, IsNamedWithItsValue) {
  EXPECT_EQ(error(0.5f, 1, 4), "");
  const std::string record = ": record 1 (counted from 0)";
  EXPECT_EQ(error(-0.5f, 1, 4), record + ": label -0.5; labels are 0, 1 or between");
  EXPECT_EQ(error(1.5f, 1, 4), record + ": label 1.5; labels are 0, 1 or between");
  EXPECT_EQ(error(NAN, 1, 4), record + ": label nan; labels are 0, 1 or between");
  for (const float weight : {-1.0f, INFINITY, NAN}) {
    EXPECT_EQ(
        error(1, 1, 4, weight),
        fmt::format("{}: weight {}; a weight is a finite number of at least 0", record, weight));
  }
  EXPECT_EQ(error(1, INFINITY, 4), record + ", column 1 of /dense: inf is not a finite number");
  EXPECT_EQ(error(1, 1, 5), record + ", feature f: id 5 is not in [0, 5)");
  EXPECT_EQ(error(1, 1, -1), record + ", feature f: id -1 is not in [0, 5)");
}

TEST(InspectedIdWeights, AreChecked) {
  const TemporaryFolder folder;
  SmallDataset data;
  data.id_weights = true;
  data.write(folder / "a.h5");
  const Inspection seen = inspect_dataset(folder / "a.h5");
  const FeatureStatistics& three = seen.features[2];
  ASSERT_EQ(three.name, "three");
  EXPECT_TRUE(three.weighted);
  EXPECT_FALSE(seen.features[1].weighted);
  EXPECT_EQ(three.weight_min, 0);
  EXPECT_EQ(three.weight_max, 9.5f);
  EXPECT_DOUBLE_EQ(three.weight_mean, 4.75);
}

}  // namespace
}  // namespace dlrm
