#include "embedding/records/zeroed_array.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "error_of.h"

namespace dlrm {
namespace {

TEST(ZeroedArray, NamesTheBytesThatAreNotThere) {
  EXPECT_EQ(error_of([&] { const ZeroedArray<int64_t> huge(int64_t{1} << 57); }),
            "cannot allocate 1152921504606846976 bytes of memory: Cannot allocate memory");
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

}  // namespace
}  // namespace dlrm
