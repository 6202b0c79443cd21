#pragma once
#include <cstddef>
#include <cstdint>
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
/// buffers are appended to the file, so the disk sees long writes in order. Errors are run_errors
/// that name the file.
class BucketFile {
 public:
  /// Continues a file that contains `segments`, in their order. What follows them is cut off.
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
  /// Tells the system that the bucket will be read soon.
  void prefetch(int64_t bucket) const;

 private:
  void flush(int64_t bucket);
  /// Calls body(offset, bytes) for each segment of the bucket.
  template <class Body>
  void for_each_segment(int64_t bucket, const Body& body) const {
    int64_t at = 0;
    for (const Segment& segment : segments_) {
      if (segment.bucket == bucket) body(at, segment.bytes);
      at += segment.bytes;
    }
  }

  File file_;
  size_t buffer_bytes_;
  int64_t end_ = 0;
  std::vector<Segment> segments_;
  std::vector<std::vector<std::byte>> buffers_;
};

}  // namespace dlrm
