#pragma once
#include <cstdint>

#include "sample_codec.h"

namespace dlrm {

/// Blocks that are encoded or decoded at a time: so many that threads finish at about the same
/// time.
constexpr int kBlocksPerThread = 8;

/// How the memory is used: half for the buffers of the first pass, or for a bucket of the second.
struct ShuffleSizes {
  int64_t buckets = 1;
  int64_t buffer = 0;   ///< bytes
  int64_t block = 1;    ///< samples that a thread encodes or decodes at a time
  int64_t ahead = 1;    ///< samples that are read ahead
  int64_t columns = 0;  ///< bytes of the output's buffers
};

/// Throws usage_error if `memory` bytes are too little.
ShuffleSizes shuffle_sizes(double memory, const SampleCodec& codec, int threads);

/// The bucket of a key: buckets are equal ranges of keys.
inline int64_t bucket_of(uint64_t key, int64_t buckets) {
  return static_cast<int64_t>(
      (static_cast<unsigned __int128>(key) * static_cast<unsigned __int128>(buckets)) >> 64);
}

}  // namespace dlrm
