#include "data/structure_bytes.h"

#include <functional>
#include <limits>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

DatasetStructure structure() {
  DatasetStructure s;
  s.samples = 3;
  s.checksum_samples = 2;
  s.num_labels = 3;
  s.labels = {2048, 4096};
  s.weighted = true;
  s.weights = {2400, 4160};
  s.dense_width = 2;
  s.dense = {2052, 4104};
  s.features = {{"bags", 10, 0, IdType::kInt64, 4, {2100, 4112}, {2200, 4120}},
                {"two", 5, 2, IdType::kInt32, 6, {2300, 4128}, {}}};
  return s;
}

std::string packed(DatasetStructure s) {
  Packer packer;
  visit(packer, s);
  return packer.bytes;
}

TEST(StructureBytes, AreRefusedIfTheyAreCutShort) {
  const std::string whole = packed(structure());
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string bytes = whole.substr(0, size);
    Unpacker unpacker(bytes);
    DatasetStructure again;
    EXPECT_THROW(visit(unpacker, again), Error) << size;
  }
}

/// The size of a text is negative, that of all bytes after it, and one more.
TEST(StructureBytes, ASizeIsAtMostThatOfTheRest) {
  for (const int64_t size : {int64_t{-1}, int64_t{3}, int64_t{4}, kMost}) {
    Packer packer;
    packer(size);
    const std::string bytes = packer.bytes + "abc";
    Unpacker text(bytes), list(bytes);
    std::string out;
    std::vector<char> elements;
    if (size == 3) {
      text(out);
      EXPECT_EQ(out, "abc");
      list.resize(elements);
      EXPECT_EQ(elements.size(), 3u);
    } else {
      EXPECT_THROW(text(out), Error) << size;
      EXPECT_THROW(list.resize(elements), Error) << size;
    }
  }
}

TEST(StructureBytes, AreRefusedIfNoFileHasSuchNumbers) {
  const std::vector<std::function<void(DatasetStructure&)>> changes = {
      [](auto& s) { s.samples = kMost; },
      [](auto& s) { s.samples = -1; },
      [](auto& s) { s.samples = 4; },  // of `two` there are ids for 3
      [](auto& s) { s.num_labels = 0; },
      [](auto& s) { s.num_labels = kMost; },
      [](auto& s) { s.checksum_samples = kMost; },
      [](auto& s) { s.checksum_samples = -2; },
      [](auto& s) { s.dense_width = -1; },
      [](auto& s) { s.label_type = static_cast<LabelType>(7); },
      [](auto& s) { s.features[0].type = static_cast<IdType>(7); },
      [](auto& s) { s.features[0].rows = -1; },
      [](auto& s) { s.features[0].count = -4; },
      [](auto& s) { s.features[1].hotness = -2; },
      [](auto& s) { s.features[1].hotness = 3; },
      [](auto& s) { s.features[1].count = 7; },  // 3 bags of 2, and a rest
      [](auto& s) { s.features[1].count = 5; },
      [](auto& s) { s.features[0].count = kMost; },
      [](auto& s) { s.features[0].hotness = kMost; },
      [](auto& s) { s.dense_width = kMost; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    DatasetStructure changed = structure();
    changes[i](changed);
    EXPECT_THROW(check_structure(changed), Error) << i;
  }
}

}  // namespace
}  // namespace dlrm
