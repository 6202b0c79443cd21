#include "embedding/records/zeroed_array.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

TEST(ZeroedArray, NamesTheBytesThatAreNotThere) {
  try {
    const ZeroedArray<int64_t> huge(int64_t{1} << 57);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "cannot allocate 1152921504606846976 bytes of memory: Cannot allocate memory");
  }
}

TEST(ZeroedArray, IsClearedAlsoWhereItsMemoryMustStay) {
  const auto is_zero = [](const ZeroedArray<int>& values) {
    return std::all_of(values.data(), values.data() + values.size(), [](int v) { return v == 0; });
  };
  for (const bool locked : {false, true}) {
    ZeroedArray<int> values(5000);
    EXPECT_TRUE(is_zero(values));
    if (locked && ::mlock(values.data(), 5000 * sizeof(int)) != 0) GTEST_SKIP() << "no mlock";
    std::fill_n(values.data(), 5000, 7);
    values.clear();
    EXPECT_TRUE(is_zero(values)) << locked;
  }
}

/// True if the memory at an address is to have huge pages.
bool wants_huge_pages(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto at = reinterpret_cast<uintptr_t>(address);
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> begin >> dash >> end && dash == '-') here = begin <= at && at < end;
    if (here && line.rfind("VmFlags:", 0) == 0)
      return (line + " ").find(" hg ") != std::string::npos;
  }
  return false;
}

TEST(ZeroedArray, HasHugePagesFromTwoMebibytesOn) {
  constexpr int64_t kLarge = int64_t{1} << 21;
  const ZeroedArray<char> plain(kLarge);
  if (::madvise(plain.data(), kLarge, MADV_HUGEPAGE) != 0 || !wants_huge_pages(plain.data())) {
    GTEST_SKIP() << "this system has none";
  }
  for (const int64_t bytes : {int64_t{1}, kLarge - 1, kLarge, 3 * kLarge}) {
    const ZeroedArray<char> array(bytes);
    EXPECT_EQ(wants_huge_pages(array.data()), bytes >= kLarge) << bytes;
    const ZeroedArray<int64_t> words(bytes / 8);
    EXPECT_EQ(wants_huge_pages(words.data()), bytes / 8 * 8 >= kLarge) << bytes;
  }
}

}  // namespace
}  // namespace dlrm
