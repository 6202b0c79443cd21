#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "dlrm/device/cuda/matmul.h"

namespace dlrm::cuda {

/// All that an algorithm's choice depends on.
using MatmulKey = std::array<int64_t, 20>;
MatmulKey key_of(const Product& product, bool tf32);
/// The key of which way a caller takes to `product` (Matmul::fastest).
MatmulKey key_of_way(const Product& product, bool tf32);

/// The largest power of two up to 256, what algorithms ask for at most, that divides the address.
int64_t alignment(const void* pointer);

/// What was chosen: a library's algorithm as it stores it, or a number.
struct MatmulChoice {
  std::array<uint64_t, 8> data{};
};
using TunedAlgorithms = std::map<MatmulKey, MatmulChoice>;

/// Whose algorithms they are.
struct MatmulOrigin {
  uint64_t library = 0;
  int64_t capability = 0;
};

/// Choices as bytes, with where they are from.
std::vector<std::byte> pack_tuned_algorithms(const TunedAlgorithms& choices,
                                             const MatmulOrigin& origin);
/// Nothing where the bytes are of another origin, or no such bytes at all.
TunedAlgorithms unpack_tuned_algorithms(std::span<const std::byte> bytes,
                                        const MatmulOrigin& origin);

}  // namespace dlrm::cuda
