// How the returned vectors of many small layouts are divided, in divisions.txt. Their numbers are
// small, so that many shards and many divisions take equally long.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/wire/returned_parts.h"

#include "pinned_text.h"

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

TEST(ReturnedParts, DivisionsOfManyLayouts) {
  std::string text;
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    const Shards shards = layout_of(seed);
    const ReturnedParts parts(shards, 2);
    text += std::to_string(seed) + ":";
    for (size_t owner = 0; parts.count() > 1 && owner < shards.size(); ++owner) {
      text += " ";
      for (size_t s = 0; s < shards[owner].size(); ++s) {
        text += std::to_string(parts.part_of(static_cast<int>(owner), static_cast<int>(s)));
      }
    }
    text += "\n";
  }
  expect_text_of_file(text, DLRM_SOURCE "/tests/wire/divisions.txt");
}

}  // namespace
}  // namespace dlrm
