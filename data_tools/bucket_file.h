#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "dlrm/core/file.h"

namespace dlrm {

/// Consecutive bytes of one bucket in a BucketFile.
struct Segment {
  int64_t bucket = 0;
  int64_t bytes = 0;
};

/// Byte streams, the buckets, in one file. Each is collected in a buffer of its own, and full
/// buffers are appended to the file, so the disk sees long writes in order. Segments begin at
/// multiples of kBlock, and bypass the system's cache (O_DIRECT) where the file system can. Errors
/// are run_errors that name the file.
class BucketFile {
 public:
  static constexpr int64_t kBlock = 4096;

  /// Continues a file that contains `segments`, in their order. What follows them is cut off.
  /// `buffer_bytes` is a multiple of kBlock.
  BucketFile(const std::string& path, int64_t buckets, int64_t buffer_bytes,
             std::vector<Segment> segments);

  void append(int64_t bucket, const void* data, size_t bytes);
  /// Writes the buffers and syncs the file.
  void save();
  /// Frees the buffers, which are empty. Nothing is appended afterwards.
  void end_appending();
  /// What save() has written.
  const std::vector<Segment>& segments() const { return segments_; }

  int64_t bytes_of_bucket(int64_t bucket) const;
  /// Reads a whole bucket, as it was saved.
  void read(int64_t bucket, std::vector<std::byte>& out) const;

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Block = std::unique_ptr<std::byte[], Free>;
  struct Buffer {
    Block data;  ///< of buffer_bytes_, or null before the first append
    size_t used = 0;
  };

  static Block aligned(size_t bytes);
  /// The bytes of a segment in the file.
  static int64_t stored(int64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }
  void flush(int64_t bucket);
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
  int64_t end_ = 0;
  std::vector<Segment> segments_;
  std::vector<Buffer> buffers_;
};

}  // namespace dlrm
