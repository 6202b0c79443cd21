#pragma once
#include <cstddef>
#include <cstdint>

namespace dlrm {

/// XXH3 of bytes. Plan files name a machine file by it. Datasets and checkpoints have CRC32Cs.
uint64_t hash_bytes(const void* data, size_t bytes, uint64_t seed = 0);

struct Hash128 {
  uint64_t low, high;
};
/// 128-bit XXH3 of bytes. `dlrm-data shuffle` compares sums of those of all samples.
Hash128 hash128(const void* data, size_t bytes);

/// CRC-32 of bytes (ISO 3309), as zlib's crc32. Datasets depend on its values.
uint32_t crc32(const void* data, size_t bytes);

/// SplitMix64 with state `value` (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014): a bijection whose results look random. Datasets depend on its values.
constexpr uint64_t mix64(uint64_t value) {
  uint64_t z = value + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace dlrm
