#include "dlrm/core/partition.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

TEST(Partition, PartsCoverEverythingOnceAndTheLastIsTheLargest) {
  for (int64_t total : {0, 1, 7, 64, 119}) {
    for (int64_t parts : {1, 2, 3, 8, 150}) {
      int64_t end = 0, largest = 0;
      for (int64_t part = 0; part < parts; ++part) {
        const Range range = part_of(total, part, parts);
        EXPECT_EQ(range.begin, end);
        end = range.end;
        largest = std::max(largest, range.size());
      }
      EXPECT_EQ(end, total);
      EXPECT_EQ(largest_part(total, parts), largest) << total << " in " << parts;
    }
  }
}

}  // namespace
}  // namespace dlrm
