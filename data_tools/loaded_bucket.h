#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dlrm/core/block_writer.h"

#include "bucket_file.h"
#include "sample_codec.h"
#include "shuffle_sizes.h"

namespace dlrm {

/// A bucket in memory. Its samples are cut into parts of some `sizes.block` samples by ranges of
/// their keys, so that threads can sort them one by one, each in a processor's cache.
class LoadedBucket {
 public:
  /// Has memory for buckets of up to `bytes`. All arguments outlive the object.
  LoadedBucket(const SampleCodec& codec, const ShuffleSizes& sizes, int64_t bytes);

  /// Reads a bucket. Returns whether keys and numbers of ids, on which places in memory depend, can
  /// be those that were written: a faulty disk may have changed them.
  bool load(const BucketFile& buckets, int64_t bucket);
  int64_t samples() const { return samples_; }
  size_t parts() const { return parts_.size(); }
  /// Sorts a part. `begins` are the addresses of its samples in the order of their keys.
  void sort(size_t part, std::vector<const std::byte*>& begins);

 private:
  struct Place {
    uint64_t key;
    size_t at;  ///< first byte after the key
    bool operator<(const Place& other) const {
      return key < other.key || (key == other.key && at < other.at);
    }
  };

  const SampleCodec& codec_;
  const ShuffleSizes& sizes_;
  AlignedBlock bytes_;
  int64_t samples_ = 0;
  std::vector<std::vector<Place>> parts_;
};

}  // namespace dlrm
