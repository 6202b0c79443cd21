#include "bench/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error_of.h"

namespace dlrm::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Shares, AreParsedAsRangesAndLists) {
  EXPECT_THAT(parse_shares("1..4"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(parse_shares("98..100"), ElementsAre(98, 99, 100));
  EXPECT_THAT(parse_shares("10,75,0.5,100"), ElementsAre(10, 75, 0.5, 100));
}

TEST(Shares, OfOtherFormsAreRefused) {
  for (const char* text : {"", "0", "-1", "100.1", "101", "x", "5x", "nan", "1e400", "99..101"}) {
    EXPECT_THAT(usage_error_of([&] { parse_shares(text); }),
                HasSubstr(std::string("--shares ") + text + ": must be 1..10"));
  }
}

}  // namespace
}  // namespace dlrm::bench
