#include "bucket_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include <fcntl.h>
#include <unistd.h>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

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
  for (const Segment& segment : segments_) end_ += stored(segment.bytes);
  if (file_.size() < end_) {
    throw run_error("{}: {} bytes, but {} were written", path, file_.size(), end_);
  }
  if (ftruncate(file_.descriptor(), end_) != 0) {
    throw run_error("{}: cannot be cut to {} bytes: {}", path, end_, std::strerror(errno));
  }
  // Without effect where the file system refuses it.
  fcntl(file_.descriptor(), F_SETFL, fcntl(file_.descriptor(), F_GETFL) | O_DIRECT);
}

BucketFile::Block BucketFile::aligned(size_t bytes) {
  Block memory(static_cast<std::byte*>(std::aligned_alloc(kBlock, bytes)));
  if (!memory) throw std::bad_alloc();
  return memory;
}

void BucketFile::append(int64_t bucket, const void* data, size_t bytes) {
  Buffer& buffer = buffers_[static_cast<size_t>(bucket)];
  if (!buffer.data) buffer.data = aligned(buffer_bytes_);
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const size_t part = std::min(bytes, buffer_bytes_ - buffer.used);
    std::memcpy(buffer.data.get() + buffer.used, from, part);
    buffer.used += part;
    from += part;
    bytes -= part;
    if (buffer.used == buffer_bytes_) flush(bucket);
  }
}

void BucketFile::flush(int64_t bucket) {
  Buffer& buffer = buffers_[static_cast<size_t>(bucket)];
  if (buffer.used == 0) return;
  const auto bytes = static_cast<int64_t>(buffer.used);
  const auto whole = static_cast<size_t>(stored(bytes));
  std::memset(buffer.data.get() + buffer.used, 0, whole - buffer.used);
  file_.write(buffer.data.get(), whole, end_);
  segments_.push_back({bucket, bytes});
  end_ += static_cast<int64_t>(whole);
  buffer.used = 0;
}

void BucketFile::save() {
  for (size_t bucket = 0; bucket < buffers_.size(); ++bucket) flush(static_cast<int64_t>(bucket));
  file_.sync();
}

void BucketFile::end_appending() { std::vector<Buffer>().swap(buffers_); }

int64_t BucketFile::bytes_of_bucket(int64_t bucket) const {
  int64_t total = 0;
  for_each_segment(bucket, [&](int64_t, int64_t bytes) { total += bytes; });
  return total;
}

void BucketFile::read(int64_t bucket, std::vector<std::byte>& out) const {
  out.resize(static_cast<size_t>(bytes_of_bucket(bucket)));
  const Block block = aligned(buffer_bytes_);
  std::byte* to = out.data();
  for_each_segment(bucket, [&](int64_t at, int64_t bytes) {
    file_.read(block.get(), static_cast<size_t>(stored(bytes)), at);
    std::memcpy(to, block.get(), static_cast<size_t>(bytes));
    to += bytes;
  });
}

}  // namespace dlrm
