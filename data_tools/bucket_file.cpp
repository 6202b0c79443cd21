#include "bucket_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

/// Bytes after which the disk begins to write, while samples are read on.
constexpr int64_t kStartSync = int64_t{1} << 26;

File open_or_create(const std::string& path) {
  if (auto file = File::try_open(path, File::Mode::kReadWrite)) return std::move(*file);
  return File(path, File::Mode::kCreate);
}

}  // namespace

BucketFile::BucketFile(const std::string& path, int64_t buckets, int64_t buffer_bytes,
                       std::vector<Segment> segments)
    : file_(open_or_create(path)),
      buffer_bytes_(static_cast<size_t>(buffer_bytes)),
      segments_(std::move(segments)),
      buffers_(static_cast<size_t>(buckets)) {
  for (const Segment& segment : segments_) end_ += segment.bytes;
  if (file_.size() < end_) {
    throw run_error("{}: {} bytes, but {} were written", path, file_.size(), end_);
  }
  if (ftruncate(file_.descriptor(), end_) != 0) {
    throw run_error("{}: cannot be cut to {} bytes: {}", path, end_, std::strerror(errno));
  }
}

void BucketFile::append(int64_t bucket, const void* data, size_t bytes) {
  std::vector<std::byte>& buffer = buffers_[static_cast<size_t>(bucket)];
  if (buffer.size() + bytes > buffer_bytes_) flush(bucket);
  if (buffer.capacity() == 0) buffer.reserve(std::max(bytes, buffer_bytes_));
  const auto* first = static_cast<const std::byte*>(data);
  buffer.insert(buffer.end(), first, first + bytes);
}

void BucketFile::flush(int64_t bucket) {
  std::vector<std::byte>& buffer = buffers_[static_cast<size_t>(bucket)];
  if (buffer.empty()) return;
  file_.write(buffer.data(), buffer.size(), end_);
  const auto bytes = static_cast<int64_t>(buffer.size());
  segments_.push_back({bucket, bytes});
  end_ += bytes;
  buffer.clear();
  if (end_ / kStartSync != (end_ - bytes) / kStartSync) file_.start_sync();
}

void BucketFile::save() {
  for (size_t bucket = 0; bucket < buffers_.size(); ++bucket) flush(static_cast<int64_t>(bucket));
  file_.sync();
}

void BucketFile::end_appending() { std::vector<std::vector<std::byte>>().swap(buffers_); }

int64_t BucketFile::bytes_of_bucket(int64_t bucket) const {
  int64_t total = 0;
  for_each_segment(bucket, [&](int64_t, int64_t bytes) { total += bytes; });
  return total;
}

void BucketFile::read(int64_t bucket, std::vector<std::byte>& out) const {
  out.resize(static_cast<size_t>(bytes_of_bucket(bucket)));
  std::byte* to = out.data();
  for_each_segment(bucket, [&](int64_t at, int64_t bytes) {
    file_.read(to, static_cast<size_t>(bytes), at);
    to += bytes;
  });
}

void BucketFile::prefetch(int64_t bucket) const {
  for_each_segment(bucket, [&](int64_t at, int64_t bytes) {
    posix_fadvise(file_.descriptor(), at, bytes, POSIX_FADV_WILLNEED);
  });
}

}  // namespace dlrm
