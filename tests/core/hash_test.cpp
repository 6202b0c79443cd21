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

}  // namespace
}  // namespace dlrm
