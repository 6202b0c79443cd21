#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "dlrm/device/cuda/matmul.h"

namespace dlrm::cuda {

/// Everything that the choice of an algorithm depends on.
using MatmulKey = std::array<int64_t, 21>;
MatmulKey key_of(const Product& product, bool tf32);
/// The key of the way that a caller computes `product` (Matmul::fastest).
MatmulKey key_of_way(const Product& product, bool tf32);

/// The largest power of two up to 256 that divides the address. Algorithms require at most 256.
int64_t alignment(const void* pointer);

/// A choice: an algorithm as the library stores it, or a number.
struct MatmulChoice {
  std::array<uint64_t, 8> data{};
};
using TunedAlgorithms = std::map<MatmulKey, MatmulChoice>;

/// The library and the GPU that the algorithms belong to.
struct MatmulOrigin {
  uint64_t library = 0;
  int64_t capability = 0;
};

/// Packs the choices and their origin.
std::vector<std::byte> pack_tuned_algorithms(const TunedAlgorithms& choices,
                                             const MatmulOrigin& origin);
/// Returns no choices if the bytes are of another origin or not in this format.
TunedAlgorithms unpack_tuned_algorithms(std::span<const std::byte> bytes,
                                        const MatmulOrigin& origin);

}  // namespace dlrm::cuda
