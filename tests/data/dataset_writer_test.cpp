// Files that a DatasetWriter writes from layouts of all kinds.
#include "dlrm/data/dataset_writer.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "dlrm/data/dataset_file.h"

#include "data/dataset_layout.h"
#include "dataset_fixture.h"

namespace dlrm {
namespace {

/// The bytes of a column as they are in memory.
template <class T>
std::string bytes_of_values(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
std::string bytes_at(const std::byte* column, size_t bytes) {
  return bytes == 0 ? "" : std::string(reinterpret_cast<const char*>(column), bytes);
}

/// Random samples with features of either width of ids, of which two have bags of any length.
struct RandomSamples {
  static constexpr int64_t kSamples = kChecksumSamples + 77, kDense = 3;
  DatasetLayout layout;
  std::vector<float> labels, dense, weights;
  struct Ids {
    std::vector<int32_t> narrow, lengths;
    std::vector<int64_t> wide, offsets{0};
  };
  std::vector<Ids> features;

  RandomSamples(LabelType label, bool weighted) {
    std::mt19937 random(7);
    layout.dense = kDense;
    layout.label = label;
    layout.weighted = weighted;
    layout.features = {{"bags", 0, 31, IdType::kInt32},  {"four", 4, 32, IdType::kInt64},
                       {"one", 1, 33, IdType::kInt64},   {"two", 2, 34, IdType::kInt32},
                       {"wider", 0, 35, IdType::kInt64}, {"last", 1, 36, IdType::kInt32}};
    for (int64_t s = 0; s < kSamples; ++s) {
      labels.push_back(static_cast<float>(random() % 2));
      if (weighted) weights.push_back(static_cast<float>(random() % 100));
      for (int64_t c = 0; c < kDense; ++c) dense.push_back(static_cast<float>(random()));
    }
    for (FeatureColumn& feature : layout.features) {
      Ids& ids = features.emplace_back();
      for (int64_t s = 0; s < kSamples; ++s) {
        const auto length =
            feature.hotness > 0 ? feature.hotness : static_cast<int64_t>(random() % 3);
        if (feature.hotness == 0) {
          ids.lengths.push_back(static_cast<int32_t>(length));
          ids.offsets.push_back(ids.offsets.back() + length);
        }
        for (int64_t k = 0; k < length; ++k) {
          const auto id = static_cast<int32_t>(random() % static_cast<unsigned>(feature.rows));
          if (feature.ids == IdType::kInt32) {
            ids.narrow.push_back(id);
          } else {
            ids.wide.push_back(id);
          }
        }
      }
    }
  }

  DatasetBlock block(int64_t begin, int64_t end) const {
    const auto part = [](const auto& values, int64_t from, int64_t to) {
      using T = typename std::decay_t<decltype(values)>::value_type;
      if (values.empty()) return View<const T>();
      return View<const T>(values).subspan(static_cast<size_t>(from),
                                           static_cast<size_t>(to - from));
    };
    DatasetBlock block;
    block.samples = end - begin;
    block.labels = part(labels, begin, end);
    block.weights = part(weights, begin, end);
    block.dense = part(dense, begin * kDense, end * kDense);
    for (size_t f = 0; f < features.size(); ++f) {
      const Ids& ids = features[f];
      const int64_t hotness = layout.features[f].hotness;
      const auto at = [&](int64_t s) {
        return hotness > 0 ? s * hotness : ids.offsets[static_cast<size_t>(s)];
      };
      BagColumn bags;
      bags.ids = part(ids.narrow, at(begin), at(end));
      bags.wide_ids = part(ids.wide, at(begin), at(end));
      if (hotness == 0) bags.lengths = part(ids.lengths, begin, end);
      block.bags.push_back(bags);
    }
    return block;
  }

  /// Sizes that are announced: of samples, and of the ids of either feature of bags.
  void write(const std::string& path, int64_t step, bool samples, bool bags, bool wider,
             int64_t buffers) const {
    DatasetLayout announced = layout;
    if (samples) announced.samples = kSamples;
    if (bags) announced.features[0].count = features[0].offsets.back();
    if (wider) announced.features[4].count = features[4].offsets.back();
    DatasetWriter writer(path, announced, buffers);
    for (int64_t at = 0; at < kSamples; at += step) {
      EXPECT_EQ(writer.samples(), at);
      writer.append(block(at, std::min(kSamples, at + step)));
    }
    writer.finish();
  }

  void expect_in(const std::string& path) const {
    const DatasetFile file(path);
    const auto n = static_cast<size_t>(kSamples);
    EXPECT_EQ(file.samples(), kSamples);
    if (layout.label == LabelType::kFloat32) {
      EXPECT_TRUE(bytes_at(file.labels(), n * 4) == bytes_of_values(labels));
    } else {
      EXPECT_TRUE(bytes_at(file.labels(), n) ==
                  bytes_of_values(std::vector<uint8_t>(labels.begin(), labels.end())));
    }
    EXPECT_EQ(file.weighted(), layout.weighted);
    if (layout.weighted) {
      EXPECT_TRUE(bytes_at(file.weights(), n * 4) == bytes_of_values(weights));
    }
    EXPECT_TRUE(bytes_at(file.dense(), n * kDense * 4) == bytes_of_values(dense));
    std::vector<size_t> all;
    for (size_t f = 0; f < features.size(); ++f) {
      SCOPED_TRACE(layout.features[f].name);
      const MappedFeature* const found = file.find(layout.features[f].name);
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->rows, layout.features[f].rows);
      EXPECT_EQ(found->hotness, layout.features[f].hotness);
      EXPECT_EQ(found->type, layout.features[f].ids);
      const std::string ids =
          bytes_of_values(features[f].narrow) + bytes_of_values(features[f].wide);
      EXPECT_EQ(found->count * bytes_of(found->type), std::ssize(ids));
      EXPECT_TRUE(bytes_at(found->ids, ids.size()) == ids);
      if (found->hotness == 0) {
        EXPECT_TRUE(bytes_at(found->offsets, (n + 1) * 8) == bytes_of_values(features[f].offsets));
      }
      all.push_back(f);
    }
    for (int64_t block = 0; block < file.blocks(); ++block) {
      EXPECT_NO_THROW(file.verify(block, all));
    }
  }
};

TEST(DatasetWriter, WritesEveryKindOfColumnInAnyParts) {
  const TemporaryFolder folder;
  for (const LabelType label : {LabelType::kUint8, LabelType::kFloat32}) {
    const RandomSamples samples(label, label == LabelType::kFloat32);
    samples.write(folder / "a.h5", RandomSamples::kSamples, false, false, false, 0);
    samples.expect_in(folder / "a.h5");
    const std::string whole = bytes_of_file(folder / "a.h5");
    for (int known = 0; known < 8; ++known) {
      for (const int64_t buffers : {0, 1 << 16}) {
        const bool direct = known == 7;
        // Buffers are of columns in their final place.
        if (!direct && (buffers > 0 || label == LabelType::kUint8)) continue;
        samples.write(folder / "b.h5", 5000 + known, (known & 1) != 0, (known & 2) != 0,
                      (known & 4) != 0, buffers);
        EXPECT_TRUE(bytes_of_file(folder / "b.h5") == whole) << known << ' ' << buffers;
      }
    }
  }
}

TEST(DatasetWriter, AnyNumberOfSamplesCanBeVerified) {
  const TemporaryFolder folder;
  SmallDataset data;
  for (const int64_t samples : {int64_t{0}, int64_t{1}, kChecksumSamples - 1, kChecksumSamples,
                                kChecksumSamples + 1, 2 * kChecksumSamples}) {
    data.samples = samples;
    data.write(folder / "a.h5", 5000);
    const DatasetFile file(folder / "a.h5");
    EXPECT_EQ(file.samples(), samples);
    EXPECT_EQ(file.checksum_samples(), kChecksumSamples);
    EXPECT_EQ(file.blocks(), (samples + kChecksumSamples - 1) / kChecksumSamples);
    const std::vector<size_t> all{0, 1, 2};
    for (int64_t block = 0; block < file.blocks(); ++block) {
      EXPECT_NO_THROW(file.verify(block, all)) << samples;
    }
  }
}

TEST(DatasetWriter, NamesThatWouldBePathsAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  for (const std::string name : {"", ".", "/", "a/b", "/a", "a/"}) {
    DatasetLayout layout;
    layout.features = {{"good", 1, 5, IdType::kInt32}, {name, 1, 5, IdType::kInt32}};
    EXPECT_EQ(usage_error_of([&] { DatasetWriter(path, layout); }),
              fmt::format("{}: a feature cannot be named '{}' in a dataset", path, name));
  }
  for (const std::string name : {"..", ".a", "a.", " ", "a b"}) {
    DatasetLayout layout;
    layout.features = {{name, 1, 5, IdType::kInt32}};
    DatasetWriter(path, layout).finish();
    EXPECT_NE(DatasetFile(path).find(name), nullptr) << name;
  }
}

TEST(DatasetWriter, AFileThatCannotBeMadeIsNamed) {
  DatasetLayout layout;
  for (const int64_t samples : {-1, 0}) {
    layout.samples = samples;
    EXPECT_EQ(usage_error_of([&] { DatasetWriter("/nowhere/a.h5", layout); }),
              "/nowhere/a.h5: cannot create: No such file or directory");
  }
  // Spools have no names, so their folder may go.
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "gone");
  const SmallDataset data;
  DatasetWriter writer(folder / "gone/a.h5", data.layout());
  data.append(writer, 0, 10);
  std::filesystem::remove_all(folder / "gone");
  EXPECT_EQ(usage_error_of([&] { writer.finish(); }),
            folder / "gone/a.h5" + ": cannot create: No such file or directory");
}

}  // namespace
}  // namespace dlrm
