#include "shuffle_sizes.h"

#include <algorithm>
#include <cmath>

#include "dlrm/core/error.h"

#include "bucket_file.h"

namespace dlrm {
namespace {

/// Samples. Divides the checksums' block. A block of usual samples stays in a processor's cache.
constexpr int64_t kMostBlock = 2048;
constexpr double kLeastBuffer = BucketFile::kBlock;
constexpr double kMostBuffer = 0x1p20;
/// Of a bucket, if there is memory for the buffers. Nothing can be sorted until the first is read.
constexpr double kUsualBucket = 0x1p28;
constexpr double kMostAhead = 0x1p24, kMostColumns = 0x1p26;  // bytes
/// Of a sample in a bucket, besides its bytes: its key, and its place in the sorted list.
constexpr double kKeyBytes = 8, kPlaceBytes = 16;

}  // namespace

ShuffleSizes shuffle_sizes(double memory, const SampleCodec& codec, int threads) {
  const auto samples = static_cast<double>(std::max<int64_t>(codec.layout().samples, 1));
  const double sample = static_cast<double>(codec.total_bytes()) / samples;
  const double whole = samples * (sample + kKeyBytes + kPlaceBytes);
  const double usual =
      std::min(std::ceil(whole / kUsualBucket), std::floor(memory / 2 / kMostBuffer));
  const double buckets = std::max({1.0, usual, std::ceil(whole / (memory / 2))});
  if (memory / 2 / buckets < kLeastBuffer) {
    throw usage_error("--memory: {:.0f} MiB are too little for {:.1f} GiB: {:.0f} MiB would do",
                      memory / 0x1p20, whole / 0x1p30,
                      std::ceil(std::sqrt(whole * 4 * kLeastBuffer) * 1.01 / 0x1p20));
  }
  ShuffleSizes sizes;
  sizes.buckets = static_cast<int64_t>(buckets);
  sizes.buffer = static_cast<int64_t>(std::min(memory / 2 / buckets, kMostBuffer)) /
                 BucketFile::kBlock * BucketFile::kBlock;
  sizes.block = kMostBlock;
  const double blocks = static_cast<double>(threads) * kBlocksPerThread * 2;
  while (sizes.block > 16 && static_cast<double>(sizes.block) * blocks * sample > memory / 4) {
    sizes.block /= 2;
  }
  const double ahead = std::min(memory / 16, kMostAhead);
  sizes.ahead = std::max(sizes.block, static_cast<int64_t>(ahead / std::max(sample, 1.0)));
  sizes.columns = static_cast<int64_t>(std::min(memory / 16, kMostColumns));
  return sizes;
}

}  // namespace dlrm
