#include "loaded_bucket.h"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>

namespace dlrm {
namespace {

/// Samples are read in no order, which large pages make faster.
AlignedBlock large_pages(int64_t bytes) {
  constexpr size_t kPage = size_t{1} << 21;
  const size_t whole = (static_cast<size_t>(bytes) + kPage) / kPage * kPage;
  AlignedBlock block(static_cast<std::byte*>(std::aligned_alloc(kPage, whole)));
  if (!block) throw std::bad_alloc();
  madvise(block.get(), whole, MADV_HUGEPAGE);
  return block;
}

}  // namespace

LoadedBucket::LoadedBucket(const SampleCodec& codec, const ShuffleSizes& sizes, int64_t bytes)
    : codec_(codec), sizes_(sizes), bytes_(large_pages(bytes)) {
  const int64_t samples = codec.layout().samples / sizes.buckets;  // on average
  parts_.resize(static_cast<size_t>(std::max<int64_t>(1, samples / sizes.block)));
  const auto part = static_cast<size_t>(samples) / parts_.size();
  for (std::vector<Place>& places : parts_) places.reserve(part * 9 / 8 + 16);
}

bool LoadedBucket::load(const BucketFile& buckets, int64_t bucket) {
  buckets.read(bucket, bytes_.get());
  const auto bytes = static_cast<size_t>(buckets.bytes_of_bucket(bucket));
  const std::byte* const end = bytes_.get() + bytes;
  const auto parts = static_cast<int64_t>(parts_.size());
  for (std::vector<Place>& places : parts_) places.clear();
  samples_ = 0;
  for (size_t at = 0; at < bytes; ++samples_) {
    uint64_t key = 0;
    if (bytes - at <= sizeof(key)) return false;
    std::memcpy(&key, bytes_.get() + at, sizeof(key));
    at += sizeof(key);
    const size_t size = codec_.size_at(bytes_.get() + at, end);
    // The keys of a bucket are evenly spread over its range.
    const int64_t part = bucket_of(key, sizes_.buckets * parts) - bucket * parts;
    if (size == 0 || part < 0 || part >= parts) return false;
    parts_[static_cast<size_t>(part)].push_back({key, at});
    at += size;
  }
  return true;
}

void LoadedBucket::sort(size_t part, std::vector<const std::byte*>& begins) {
  std::vector<Place>& places = parts_[part];
  std::sort(places.begin(), places.end());
  begins.clear();
  begins.reserve(places.size());
  for (const Place& place : places) begins.push_back(bytes_.get() + place.at);
}

}  // namespace dlrm
