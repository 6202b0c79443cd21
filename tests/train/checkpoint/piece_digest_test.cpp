#include "train/checkpoint/piece_digest.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/core/crc32c.h"

namespace dlrm {
namespace {

TEST(PieceDigest, CountsBytesAndFindsTheFirstValueThatIsNotFinite) {
  const std::vector<float> good(10000, 1.5f);
  for (const size_t at : {size_t{0}, size_t{4095}, size_t{4096}, size_t{9000}}) {
    std::vector<float> values = good;
    values[at] = NAN;
    values.back() = INFINITY;
    PieceDigest digest;
    digest.add(View<const float>(values));
    EXPECT_EQ(digest.not_finite(), static_cast<int64_t>(at));
    PieceDigest later;
    later.add(View<const float>(good));
    EXPECT_FALSE(later.not_finite());
    later.add(View<const float>(values));
    later.add(View<const float>(values));
    EXPECT_EQ(later.not_finite(), static_cast<int64_t>(10000 + at));
    EXPECT_EQ(later.bytes(), 120000);
    Crc32c crc;
    crc.add(good.data(), 40000);
    crc.add(values.data(), 40000);
    crc.add(values.data(), 40000);
    EXPECT_EQ(later.crc().value(), crc.value());
  }
  PieceDigest none;
  none.add({});
  EXPECT_EQ(none.bytes(), 0);
  EXPECT_FALSE(none.not_finite());
}

}  // namespace
}  // namespace dlrm
