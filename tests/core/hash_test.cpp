#include "dlrm/core/hash.h"

#include <array>
#include <set>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

// The promise of dlrm-data's --max-rows that ids stay the same from release to release depends on
// it.
TEST(Mix64, ValuesAreThePublishedSequenceOfSplitMix64) {
  EXPECT_EQ(mix64(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(mix64(1234567), 6457827717110365317u);
}

TEST(HashBytes, EveryByteTheLengthAndTheSeedChangeTheHash) {
  std::array<unsigned char, 40> bytes{};
  std::set<uint64_t> hashes{hash_bytes(bytes.data(), bytes.size()),
                            hash_bytes(bytes.data(), bytes.size() - 1),
                            hash_bytes(bytes.data(), bytes.size(), 1)};
  for (unsigned char& byte : bytes) {
    byte = 1;
    hashes.insert(hash_bytes(bytes.data(), bytes.size()));
    byte = 0;
  }
  EXPECT_EQ(hashes.size(), 3 + bytes.size());
}

TEST(HashBytes, EveryLengthHasItsOwnHash) {
  const std::array<unsigned char, 40> bytes{};
  std::set<uint64_t> hashes;
  for (size_t length = 0; length <= bytes.size(); ++length) {
    hashes.insert(hash_bytes(bytes.data(), length));
  }
  EXPECT_EQ(hashes.size(), 1 + bytes.size());
}

TEST(Hash128, IsXxh3) {
  const Hash128 nothing = hash128("", 0);
  EXPECT_EQ(nothing.high, 0x99aa06d3014798d8u);
  EXPECT_EQ(nothing.low, 0x6001c324468d497fu);
  EXPECT_NE(hash128("ab", 1).low, hash128("ab", 2).low);
}

TEST(Crc32, TheCheckStringGivesThePublishedValue) {
  EXPECT_EQ(crc32("123456789", 9), 0xcbf43926u);
  EXPECT_EQ(crc32("", 0), 0u);
}

}  // namespace
}  // namespace dlrm
