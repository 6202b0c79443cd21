#include "dlrm/core/crc32c.h"

#include <cstring>
#include <string>

#include <gtest/gtest.h>
#include <sys/mman.h>

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

TEST(Crc32c, MoreBytesThanAnIntCounts) {
  constexpr size_t kMany = size_t{1} << 31, kAll = kMany + 5;
  // Pages that are only read take no memory.
  void* const zeros = ::mmap(nullptr, kAll, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(zeros, MAP_FAILED);
  std::memcpy(static_cast<char*>(zeros) + kMany, "after", 5);
  Crc32c whole, end, expected;
  whole.add(zeros, kAll);
  expected.add(zeros, 4096);
  for (size_t bytes = 4096; bytes < kMany; bytes *= 2) {
    const Crc32c half = expected;
    expected.append(half, static_cast<int64_t>(bytes));
  }
  end.add("after", 5);
  expected.append(end, 5);
  EXPECT_EQ(whole.value(), expected.value());
  ::munmap(zeros, kAll);
}

TEST(Crc32c, NoBytesGiveZero) { EXPECT_EQ(0u, Crc32c().value()); }

}  // namespace
}  // namespace dlrm
