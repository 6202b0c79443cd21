#include "serve/binary_samples.h"

#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/core/error.h"

#include "error_of.h"
#include "serve/binary_body.h"

namespace dlrm::serve {
namespace {

using ::testing::ElementsAre;

std::string body(uint32_t version, uint32_t size, const std::vector<float>& dense,
                 const std::vector<uint32_t>& lengths, const std::vector<int64_t>& ids) {
  return bytes<uint32_t>({version, size}) + bytes(dense) + bytes(lengths) + bytes(ids);
}

std::string refusal_of_bytes(const std::string& text) {
  return usage_error_of([&] { read_binary_samples(text, two_features()); });
}

const std::string kGood = body(1, 2, {0.5f, -1, 2, 3}, {2, 0, 1, 1}, {9, 0, 3, 2});

TEST(BinarySamples, AreReadInOrder) {
  const Samples samples = read_binary_samples(kGood, two_features());
  EXPECT_EQ(samples.size, 2);
  EXPECT_THAT(samples.dense, ElementsAre(0.5f, -1, 2, 3));
  EXPECT_THAT(samples.ids, ElementsAre(9, 0, 3, 2));
  EXPECT_THAT(samples.offsets, ElementsAre(0, 2, 2, 3, 4));
  EXPECT_EQ(read_binary_samples(body(1, 0, {}, {}, {}), two_features()).size, 0);
}

TEST(BinarySamples, EveryOtherLengthIsRefused) {
  for (size_t size = 0; size < kGood.size(); ++size) {
    EXPECT_NE(refusal_of_bytes(kGood.substr(0, size)), "") << size;
  }
  EXPECT_EQ(refusal_of_bytes(kGood.substr(0, 30)),
            "the body has 30 bytes, and ends within the samples");
  EXPECT_EQ(refusal_of_bytes(kGood + "x"), "33 bytes are left for 4 ids of 8 bytes");
  EXPECT_EQ(refusal_of_bytes(kGood + "12345678"), "40 bytes are left for 4 ids of 8 bytes");
}

TEST(BinarySamples, SizesThatNoBodyHasNeedNoMemory) {
  EXPECT_EQ(refusal_of_bytes(body(1, 0xffffffffu, {}, {}, {})),
            "the body has 8 bytes, and ends within the samples");
  EXPECT_EQ(refusal_of_bytes(body(1, 1, {1, 2}, {0xffffffffu, 0xffffffffu}, {1})),
            "8 bytes are left for 8589934590 ids of 8 bytes");
}

TEST(BinarySamples, ValuesAreChecked) {
  EXPECT_EQ(refusal_of_bytes(body(2, 0, {}, {}, {})), "version 2; needs 1");
  EXPECT_EQ(refusal_of_bytes(body(1, 2, {1, 2, 3, std::nanf("")}, {0, 0, 0, 0}, {})),
            "samples[1]: dense[1]: nan; needs a finite number");
  EXPECT_EQ(refusal_of_bytes(body(1, 1, {1, 2}, {2, 0}, {9, 10})),
            "samples[0]: ids.C1[1]: 10; needs a whole number from 0 to 9");
  EXPECT_EQ(refusal_of_bytes(body(1, 2, {1, 2, 3, 4}, {0, 0, 0, 1}, {-1})),
            "samples[1]: ids.C2[0]: -1; needs a whole number from 0 to 3");
}

TEST(BinarySamples, WeightsOfIdsFollowAllIds) {
  Inputs inputs = two_features();
  inputs.weighted = inputs.features[1].weighted = true;
  const std::string ids = body(1, 2, {0.5f, -1, 2, 3}, {2, 1, 1, 2}, {9, 0, 1, 3, 2, 2});
  const std::string whole = ids + bytes<float>({0.5f, -1, 2});
  const Samples samples = read_binary_samples(whole, inputs);
  EXPECT_THAT(samples.weights, ElementsAre(1, 1, 0.5f, 1, -1, 2));
  for (const std::string& other :
       {ids, whole + whole.substr(0, 4), ids + bytes<float>({1, 2, std::nanf("")})}) {
    EXPECT_THROW(read_binary_samples(other, inputs), Error);
  }
}

}  // namespace
}  // namespace dlrm::serve
