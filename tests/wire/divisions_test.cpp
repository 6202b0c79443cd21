// How the returned vectors of many small layouts are divided. Their numbers are small, so that
// many shards and many divisions take equally long.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/wire/returned_parts.h"

namespace dlrm {
namespace {

using Shards = std::vector<std::vector<ReturnedShard>>;

/// Up to 4 owners of up to 29 shards each.
Shards layout_of(uint32_t seed) {
  std::minstd_rand random(seed);
  const auto up_to = [&](uint32_t most) { return static_cast<double>(random() % (most + 1)); };
  const uint32_t scale = seed % 3 == 0 ? 12 : seed % 3 == 1 ? 40 : 400;
  const uint32_t most = seed % 4 == 0 ? 30 : 6;
  Shards shards(1 + random() % 4);
  for (auto& of_owner : shards) {
    of_owner.resize(random() % most);
    for (ReturnedShard& shard : of_owner) {
      shard.vectors = 1 + up_to(2);
      shard.lookups = shard.vectors * (seed % 10 == 0 ? 2 : 1 + up_to(scale));
      shard.rounds = random() % 4 == 0;
    }
  }
  return shards;
}

/// The part of each shard, by owner.
std::vector<std::vector<int>> division_of(const Shards& shards) {
  const ReturnedParts parts(shards, 2);
  std::vector<std::vector<int>> division;
  for (size_t owner = 0; owner < shards.size(); ++owner) {
    division.emplace_back();
    for (size_t s = 0; s < shards[owner].size(); ++s) {
      division.back().push_back(parts.part_of(static_cast<int>(owner), static_cast<int>(s)));
    }
  }
  return division;
}

/// Compares something of many layouts.
void for_each_layout(const std::function<void(const Shards&)>& check) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    check(layout_of(seed));
  }
}

TEST(Divisions, HaveAsManyPartsAsAreCounted) {
  for_each_layout([](const Shards& shards) {
    std::set<int> parts;
    for (const auto& of_owner : division_of(shards)) parts.insert(of_owner.begin(), of_owner.end());
    const int count = ReturnedParts(shards, 2).count();
    EXPECT_EQ(parts.size() <= 1 ? 1 : 2, count);
    EXPECT_TRUE(parts.empty() || (*parts.begin() == 0 && *parts.rbegin() == count - 1));
    EXPECT_EQ(ReturnedParts(shards, 1).count(), 1);
  });
}

/// An equal shard may be in the other part, if its vectors would arrive late.
TEST(Divisions, ReturnAShardNoLaterThanOneWithMoreIds) {
  for_each_layout([](const Shards& shards) {
    const auto division = division_of(shards);
    for (size_t owner = 0; owner < shards.size(); ++owner) {
      for (size_t a = 0; a < shards[owner].size(); ++a) {
        for (size_t b = 0; b < shards[owner].size(); ++b) {
          const ReturnedShard &less = shards[owner][a], &more = shards[owner][b];
          if (less.vectors != more.vectors || less.rounds != more.rounds) continue;
          EXPECT_TRUE(less.lookups >= more.lookups || division[owner][a] <= division[owner][b])
              << a << " and " << b << " of " << owner;
        }
      }
    }
  });
}

TEST(Divisions, DependOnRatiosAlone) {
  for_each_layout([](const Shards& shards) {
    Shards scaled = shards;
    for (auto& of_owner : scaled) {
      for (ReturnedShard& shard : of_owner) shard.vectors *= 4, shard.lookups *= 4;
    }
    EXPECT_EQ(division_of(scaled), division_of(shards));
  });
}

TEST(Divisions, DoNotDependOnTheOrderOfOwners) {
  for_each_layout([](const Shards& shards) {
    Shards reversed = shards;
    std::reverse(reversed.begin(), reversed.end());
    std::vector<std::vector<int>> division = division_of(reversed);
    std::reverse(division.begin(), division.end());
    EXPECT_EQ(division, division_of(shards));
  });
}

}  // namespace
}  // namespace dlrm
