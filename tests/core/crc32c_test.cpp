#include "dlrm/core/crc32c.h"

#include <string>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

TEST(Crc32c, TheCheckStringGivesThePublishedValue) {
  Crc32c crc;
  crc.add("1234", 4);
  crc.add("56789", 5);
  EXPECT_EQ(0xE3069283u, crc.value());
}

TEST(Crc32c, AppendingACrcEqualsAddingItsBytes) {
  const std::string text(100'000, 'x');
  for (const size_t size : {0, 1, 7, 4096, 99'999}) {
    Crc32c whole, begin, end;
    whole.add("begin", 5);
    begin.add("begin", 5);
    for (Crc32c* crc : {&whole, &end}) crc->add(text.data(), size);
    begin.append(end, static_cast<int64_t>(size));
    EXPECT_EQ(whole.value(), begin.value()) << size;
  }
}

TEST(Crc32c, NoBytesGiveZero) { EXPECT_EQ(0u, Crc32c().value()); }

}  // namespace
}  // namespace dlrm
