#include "dlrm/core/shown_bytes.h"

#include <gtest/gtest.h>

namespace dlrm {
namespace {

TEST(ShownBytes, TheUnitFitsTheSize) {
  EXPECT_EQ(shown_bytes(0), "0 B");
  EXPECT_EQ(shown_bytes(1023), "1023 B");
  EXPECT_EQ(shown_bytes(1024), "1.0 KiB");
  EXPECT_EQ(shown_bytes((1 << 20) - 1), "1024.0 KiB");
  EXPECT_EQ(shown_bytes(1 << 20), "1.0 MiB");
  EXPECT_EQ(shown_bytes((1 << 30) - 1), "1024.0 MiB");
  EXPECT_EQ(shown_bytes(1 << 30), "1.00 GiB");
  EXPECT_EQ(shown_bytes(1536), "1.5 KiB");
  EXPECT_EQ(shown_bytes(20 << 20), "20.0 MiB");
  EXPECT_EQ(shown_bytes(size_t{3} << 29), "1.50 GiB");
}

}  // namespace
}  // namespace dlrm
