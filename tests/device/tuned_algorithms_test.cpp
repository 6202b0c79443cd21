#ifdef DLRM_WITH_CUDA
#include "device/cuda/tuned_algorithms.h"

#include <gtest/gtest.h>

namespace dlrm::cuda {
namespace {

constexpr MatmulOrigin kOrigin{120300, 90};

TunedAlgorithms two_choices() {
  TunedAlgorithms choices;
  for (int64_t i = 0; i < 2; ++i) {
    MatmulKey key{};
    key[3] = i;
    choices[key].data = {static_cast<uint64_t>(i) + 7, 1, 2, 3, 4, 5, 6, 9};
  }
  return choices;
}

bool equal(const TunedAlgorithms& a, const TunedAlgorithms& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.data == y.second.data;
  });
}

TEST(TunedAlgorithms, AreUnpackedAsTheyWerePacked) {
  const auto bytes = pack_tuned_algorithms(two_choices(), kOrigin);
  EXPECT_TRUE(equal(unpack_tuned_algorithms(bytes, kOrigin), two_choices()));
  EXPECT_TRUE(unpack_tuned_algorithms(pack_tuned_algorithms({}, kOrigin), kOrigin).empty());
}

TEST(TunedAlgorithms, OfAnotherLibraryOrGpuAreLeftOut) {
  const auto bytes = pack_tuned_algorithms(two_choices(), kOrigin);
  EXPECT_TRUE(unpack_tuned_algorithms(bytes, {kOrigin.library + 1, 90}).empty());
  EXPECT_TRUE(unpack_tuned_algorithms(bytes, {kOrigin.library, 80}).empty());
}

TEST(TunedAlgorithms, OfOtherBytesAreLeftOut) {
  const auto bytes = pack_tuned_algorithms(two_choices(), kOrigin);
  auto changed = bytes;
  changed[0] ^= std::byte{1};
  EXPECT_TRUE(unpack_tuned_algorithms(changed, kOrigin).empty());
  for (size_t size = 0; size < bytes.size(); size += 8) {
    EXPECT_TRUE(unpack_tuned_algorithms({bytes.data(), size}, kOrigin).empty()) << size;
  }
  auto longer = bytes;
  longer.resize(bytes.size() + sizeof(MatmulKey) + sizeof(MatmulChoice));
  EXPECT_TRUE(unpack_tuned_algorithms(longer, kOrigin).empty());
}

}  // namespace
}  // namespace dlrm::cuda
#endif
