#include "dictionary.h"

#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlrm {
namespace {

TEST(Dictionary, IdsAreThoseOfAMap) {
  std::mt19937 generator(1);
  std::vector<CategoryValue> values(200000);
  for (CategoryValue& value : values) {
    value = generator() % 50 == 0 ? kMissingValue : generator() >> (generator() % 24);
  }
  for (const int32_t first : {0, 1}) {
    Dictionary dictionary(first);
    std::vector<int32_t> ids(values.size());
    dictionary.insert_all(values, ids);
    std::map<CategoryValue, int32_t> expected;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto next = static_cast<int32_t>(expected.size()) + first;
      ASSERT_EQ(ids[i], expected.emplace(values[i], next).first->second);
    }
    EXPECT_EQ(dictionary.size(), static_cast<int64_t>(expected.size()));
    const std::vector<CategoryValue> listed = dictionary.values();
    for (const auto& [value, id] : expected) {
      ASSERT_EQ(dictionary.find(value), id);
      ASSERT_EQ(listed[static_cast<size_t>(id - first)], value);
    }
  }
}

TEST(Dictionary, UnknownValuesHaveNoId) {
  Dictionary dictionary(1);
  dictionary.insert(5);
  EXPECT_EQ(dictionary.find(6), -1);
  EXPECT_EQ(dictionary.find(0), -1);
  EXPECT_EQ(dictionary.find(kMissingValue), -1);
  std::vector<int32_t> ids(3);
  dictionary.find_all(std::vector<CategoryValue>{5, 0xffffffff, kMissingValue}, ids, 0);
  EXPECT_THAT(ids, ::testing::ElementsAre(1, 0, 0));
}

}  // namespace
}  // namespace dlrm
