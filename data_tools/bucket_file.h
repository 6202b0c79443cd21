#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dlrm/core/block_writer.h"
#include "dlrm/core/file.h"

namespace dlrm {

/// Consecutive bytes of one bucket in a BucketFile.
struct Segment {
  int64_t bucket = 0;
  int64_t bytes = 0;
};

/// Byte streams, the buckets, in one file. Each is collected in a buffer of its own, and full
/// buffers are appended to the file in the background, so the disk sees long writes in order.
/// Segments begin at multiples of kBlock, and bypass the system's cache (O_DIRECT) where the file
/// system can. Errors are run_errors that name the file.
class BucketFile {
 public:
  static constexpr int64_t kBlock = kBlockAlignment;

  /// Continues a file that contains `segments`, in their order. What follows them is cut off.
  /// `buffer_bytes` is a multiple of kBlock. `expected` are the bytes of all buckets in the end;
  /// the disk's space is reserved some way ahead, but not beyond.
  BucketFile(const std::string& path, int64_t buckets, int64_t buffer_bytes,
             std::vector<Segment> segments, int64_t expected);

  void append(int64_t bucket, const void* data, size_t bytes);
  /// Writes the buffers and syncs the file.
  void save();
  /// Frees the buffers, which are empty. Nothing is appended afterwards.
  void end_appending();
  /// What save() has written.
  const std::vector<Segment>& segments() const { return segments_; }

  int64_t bytes_of_bucket(int64_t bucket) const;
  int64_t bytes_of_largest_bucket() const;
  /// Reads a whole bucket, as it was saved, several segments at a time. `out` has
  /// bytes_of_bucket().
  void read(int64_t bucket, std::byte* out) const;

 private:
  struct Buffer {
    AlignedBlock data;  ///< of buffer_bytes_, or null before the first append
    size_t used = 0;
  };

  /// The bytes of a segment in the file.
  static int64_t stored(int64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }
  void flush(int64_t bucket);
  /// Cuts off what follows the segments.
  void cut();
  /// Calls body(offset, bytes) for each segment of the bucket.
  template <class Body>
  void for_each_segment(int64_t bucket, const Body& body) const {
    int64_t at = 0;
    for (const Segment& segment : segments_) {
      if (segment.bucket == bucket) body(at, segment.bytes);
      at += stored(segment.bytes);
    }
  }

  File file_;
  size_t buffer_bytes_;
  size_t buckets_;
  int64_t expected_;
  int64_t end_ = 0;
  std::vector<Segment> segments_;
  int64_t reserved_ = 0;  ///< bytes of the disk
  std::vector<Buffer> buffers_;
  std::optional<BlockWriter> writer_;
};

}  // namespace dlrm
