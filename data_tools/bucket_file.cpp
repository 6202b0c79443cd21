#include "bucket_file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>

#include <unistd.h>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

constexpr int64_t kReserve = int64_t{1} << 28;
constexpr int kReaders = 4;  // of segments at a time

File open_or_create(const std::string& path) {
  if (auto file = File::try_open(path, File::Mode::kReadWrite)) return std::move(*file);
  return File(path, File::Mode::kCreate);
}

}  // namespace

BucketFile::BucketFile(const std::string& path, int64_t buckets, int64_t buffer_bytes,
                       std::vector<Segment> segments, int64_t expected)
    : file_(open_or_create(path)),
      buffer_bytes_(static_cast<size_t>(buffer_bytes)),
      buckets_(static_cast<size_t>(buckets)),
      expected_(expected),
      segments_(std::move(segments)),
      buffers_(static_cast<size_t>(buckets)) {
  for (const Segment& segment : segments_) end_ += stored(segment.bytes);
  if (file_.size() < end_) {
    throw run_error("{}: {} bytes, but {} were written", path, file_.size(), end_);
  }
  cut();
  file_.bypass_cache();
  writer_.emplace(file_, buffer_bytes_);
}

void BucketFile::cut() {
  if (ftruncate(file_.descriptor(), end_) == 0) return;
  throw run_error("{}: cannot be cut to {} bytes: {}", file_.path(), end_, std::strerror(errno));
}

void BucketFile::append(int64_t bucket, const void* data, size_t bytes) {
  Buffer& buffer = buffers_[static_cast<size_t>(bucket)];
  if (!buffer.data) buffer.data = aligned_block(buffer_bytes_);
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
  // Writes beyond the end of a file would wait for one another.
  if (end_ + static_cast<int64_t>(whole) > reserved_) {
    reserved_ = std::min(end_ + kReserve, expected_);
    // If that fails, the file is cut to its length before, which no write may change meanwhile.
    writer_->wait();
    if (reserved_ > end_) file_.reserve(reserved_);
  }
  writer_->write(buffer.data, whole, end_);
  segments_.push_back({bucket, bytes});
  end_ += static_cast<int64_t>(whole);
  buffer.used = 0;
}

void BucketFile::save() {
  for (size_t bucket = 0; bucket < buffers_.size(); ++bucket) flush(static_cast<int64_t>(bucket));
  writer_->wait();
  file_.sync();
}

void BucketFile::end_appending() {
  writer_.reset();
  cut();
  std::vector<Buffer>().swap(buffers_);
}

int64_t BucketFile::bytes_of_bucket(int64_t bucket) const {
  int64_t total = 0;
  for_each_segment(bucket, [&](int64_t, int64_t bytes) { total += bytes; });
  return total;
}

int64_t BucketFile::bytes_of_largest_bucket() const {
  std::vector<int64_t> bytes(buckets_);
  for (const Segment& segment : segments_) {
    bytes[static_cast<size_t>(segment.bucket)] += segment.bytes;
  }
  return *std::max_element(bytes.begin(), bytes.end());
}

void BucketFile::read(int64_t bucket, std::byte* out) const {
  struct Piece {
    int64_t at, bytes;
    std::byte* to;
  };
  std::vector<Piece> pieces;
  for_each_segment(bucket, [&](int64_t at, int64_t bytes) {
    pieces.push_back({at, bytes, out});
    out += bytes;
  });
  std::atomic<size_t> next{0};
  const auto read_pieces = [&] {
    const AlignedBlock block = aligned_block(buffer_bytes_);
    for (size_t i = next++; i < pieces.size(); i = next++) {
      file_.read(block.get(), static_cast<size_t>(stored(pieces[i].bytes)), pieces[i].at);
      std::memcpy(pieces[i].to, block.get(), static_cast<size_t>(pieces[i].bytes));
    }
  };
  std::vector<std::future<void>> readers;
  for (int i = 1; i < kReaders; ++i) {
    readers.push_back(std::async(std::launch::async, read_pieces));
  }
  read_pieces();
  for (std::future<void>& reader : readers) reader.get();
}

}  // namespace dlrm
