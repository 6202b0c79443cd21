#include "dlrm/core/crc32c.h"

#include <gtest/gtest.h>

namespace dlrm {
namespace {

TEST(Crc32c, TheCheckStringGivesThePublishedValue) {
  Crc32c crc;
  crc.add("1234", 4);
  crc.add("56789", 5);
  EXPECT_EQ(0xE3069283u, crc.value());
}

TEST(Crc32c, NoBytesGiveZero) { EXPECT_EQ(0u, Crc32c().value()); }

}  // namespace
}  // namespace dlrm
