// Columns of a dataset file: where they may lie, and how features are found.
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/core/file.h"
#include "dlrm/data/dataset_file.h"

#include "data/dataset_structure.h"
#include "data/mapped_file.h"
#include "dataset_fixture.h"

namespace dlrm {
namespace {

struct Place {
  std::string name;
  int64_t* offset;
  int64_t bytes;
};

/// The places of all columns of 5 samples in 3 blocks with checksums.
std::vector<Place> places_in(DatasetStructure& structure) {
  const int64_t label = structure.label_type == LabelType::kUint8 ? 1 : 4;
  std::vector<Place> places;
  const auto add = [&](const std::string& name, StoredColumn& column, int64_t bytes) {
    column = {0, 0};
    places.push_back({name, &column.offset, bytes});
    places.push_back({"/checksums" + name, &column.sums, 12});
  };
  add("/label", structure.labels, 5 * label);
  add("/weight", structure.weights, 20);
  add("/dense", structure.dense, 60);
  add("/sparse/bags/ids", structure.features[0].ids, 28);
  add("/sparse/bags/offsets", structure.features[0].offsets, 48);
  add("/sparse/narrow/ids", structure.features[1].ids, 40);
  add("/sparse/wide/ids", structure.features[2].ids, 40);
  return places;
}

TEST(Columns, EndWithTheFileAtTheLatest) {
  constexpr int64_t kSize = 4096;
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  // Offsets of bags that end with 7, at the start of the file and at its end.
  std::string text(kSize, '\0');
  text[40] = text[kSize - 8] = 7;
  write_file(path, text);
  for (const LabelType label : {LabelType::kUint8, LabelType::kFloat32}) {
    DatasetStructure structure;
    structure.samples = 5;
    structure.checksum_samples = 2;
    structure.label_type = label;
    structure.weighted = true;
    structure.dense_width = 3;
    structure.features = {{"bags", 9, 0, IdType::kInt32, 7, {}, {}},
                          {"narrow", 9, 2, IdType::kInt32, 10, {}, {}},
                          {"wide", 9, 1, IdType::kInt64, 5, {}, {}}};
    const auto open = [&] { DatasetFile(std::make_unique<MappedFile>(path), structure); };
    for (const Place& place : places_in(structure)) {
      SCOPED_TRACE(place.name);
      const std::string beyond =
          path + ": " + place.name + " goes beyond the end of the file (cut short?)";
      *place.offset = kSize - place.bytes;
      EXPECT_NO_THROW(open());
      for (const int64_t offset : {kSize - place.bytes + 1, kSize + 1, int64_t{-1}}) {
        *place.offset = offset;
        EXPECT_EQ(usage_error_of(open), beyond);
      }
      *place.offset = 0;
    }
  }
}

TEST(Columns, OffsetsGoFromZeroToTheNumberOfIds) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  for (const int64_t first : {-1, 0, 1}) {
    for (const int64_t last : {-7, 6, 7, 8}) {
      const std::vector<int64_t> offsets{first, 1, 2, 3, 4, last};  // of 5 samples
      write_file(path, {reinterpret_cast<const char*>(offsets.data()), 48});
      DatasetStructure structure;
      structure.samples = 5;
      structure.labels = {0, -1};
      structure.features = {{"bags", 9, 0, IdType::kInt32, 7, {0, -1}, {0, -1}}};
      const auto open = [&] { DatasetFile(std::make_unique<MappedFile>(path), structure); };
      if (first == 0 && last == 7) {
        EXPECT_NO_THROW(open());
      } else {
        EXPECT_EQ(usage_error_of(open),
                  fmt::format("{}: /sparse/bags/offsets goes from {} to {}; it must "
                              "go from 0 to the number of ids, 7",
                              path, first, last));
      }
    }
  }
}

/// Features are often numbered: cat_1 and cat_10.
TEST(Columns, AreFoundByTheirWholeNames) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  DatasetLayout layout;
  for (const char* name : {"b_1", "b_10", "b_100", "b_21", "cat", "cat_10"}) {
    layout.features.push_back(
        {name, 1, static_cast<int64_t>(5 + layout.features.size()), IdType::kInt32});
  }
  layout.samples = 0;
  DatasetWriter(path, layout).finish();
  const DatasetFile file(path);
  const Dataset dataset(path);
  for (const FeatureColumn& feature : layout.features) {
    const MappedFeature* const found = file.find(feature.name);
    ASSERT_NE(found, nullptr) << feature.name;
    EXPECT_EQ(found->name, feature.name);
    EXPECT_EQ(found->rows, feature.rows);
    EXPECT_EQ(dataset.rows(feature.name), feature.rows);
  }
  for (const char* other :
       {"", "b", "b_", "b_2", "1", "b_1000", "b_211", "at", "CAT", "cat_1", "cat_", "cat "}) {
    EXPECT_EQ(file.find(other), nullptr) << other;
    EXPECT_EQ(dataset.rows(other), 0) << other;
  }
}

}  // namespace
}  // namespace dlrm
