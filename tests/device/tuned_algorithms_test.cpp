#ifdef DLRM_WITH_CUDA
#include "device/cuda/tuned_algorithms.h"

#include <cstring>
#include <functional>

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

TEST(Alignment, IsTheLargestPowerOfTwoUpTo256) {
  const auto of = [](uintptr_t address) { return alignment(reinterpret_cast<void*>(address)); };
  EXPECT_EQ(of(0), 256);
  EXPECT_EQ(of(1), 1);
  EXPECT_EQ(of(0x1004), 4);
  EXPECT_EQ(of(0x1080), 128);
  EXPECT_EQ(of(0x1100), 256);
  EXPECT_EQ(of(0x2000), 256);
}

/// Whatever the choice of an algorithm depends on changes the key.
TEST(MatmulKey, DependsOnEveryPropertyOfAProduct) {
  alignas(256) static char memory[3 * 256];
  const auto product = [] {
    Product p;
    p.a = Matrix(memory, DType::kFloat32, 4, 4, 8);
    p.b = Matrix(memory + 256, DType::kFloat32, 4, 4, 8);
    p.d = Matrix(memory + 512, DType::kFloat32, 4, 4, 8);
    p.epilogue = Epilogue::kReluAuxBias;
    p.bias = memory;
    p.aux = memory;
    p.aux_stride = 128;
    return p;
  };
  const std::vector<std::function<void(Product&)>> changes{
      [](Product& p) { p.a.rows = p.d.rows = 5; },
      [](Product& p) { p.b.cols = p.d.cols = 5; },
      [](Product& p) { p.a.cols = p.b.rows = 5; },
      [](Product& p) { p.transpose_a = true; },
      [](Product& p) { p.transpose_b = true; },
      [](Product& p) { p.a.type = p.b.type = DType::kBFloat16; },
      [](Product& p) { p.a.type = p.b.type = p.d.type = DType::kBFloat16; },
      [](Product& p) { p.a.stride = 12; },
      [](Product& p) { p.b.stride = 12; },
      [](Product& p) { p.d.stride = 12; },
      [](Product& p) { p.c = p.d; },
      [](Product& p) { p.c = Matrix(memory + 512, DType::kFloat32, 4, 4, 12); },
      [](Product& p) { p.c = Matrix(memory + 4, DType::kFloat32, 4, 4, 8); },
      [](Product& p) { p.epilogue = Epilogue::kGeluAuxBias; },
      [](Product& p) { p.aux_stride = 256; },
      [](Product& p) { p.a.data = memory + 4; },
      [](Product& p) { p.b.data = memory + 4; },
      [](Product& p) { p.d.data = memory + 4; },
      [](Product& p) { p.bias = memory + 4; },
      [](Product& p) { p.aux = memory + 4; }};
  const MatmulKey key = key_of(product(), false);
  for (size_t i = 0; i < changes.size(); ++i) {
    Product changed = product();
    changes[i](changed);
    EXPECT_NE(key_of(changed, false), key) << i;
    for (size_t k = 0; k < i; ++k) {
      Product other = product();
      changes[k](other);
      EXPECT_NE(key_of(changed, false), key_of(other, false)) << i << " " << k;
    }
  }
  EXPECT_NE(key_of(product(), true), key);
  EXPECT_NE(key_of_way(product(), false), key);
  EXPECT_EQ(key_of(product(), false), key);
  Product without_aux = product(), moved = product();
  without_aux.epilogue = moved.epilogue = Epilogue::kBias;
  moved.aux = memory + 4;
  moved.aux_stride = 256;
  EXPECT_EQ(key_of(without_aux, false), key_of(moved, false));
}

}  // namespace
}  // namespace dlrm::cuda
#endif
