#include "dlrm/core/hash.h"

#include <isa-l/crc.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace dlrm {

uint64_t hash_bytes(const void* data, size_t bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

Hash128 hash128(const void* data, size_t bytes) {
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  return {hash.low64, hash.high64};
}

uint32_t crc32(const void* data, size_t bytes) {
  return crc32_gzip_refl(0, static_cast<const unsigned char*>(data), bytes);
}

}  // namespace dlrm
