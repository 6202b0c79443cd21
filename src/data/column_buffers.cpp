#include "column_buffers.h"

#include <algorithm>
#include <cstring>

namespace dlrm {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 20;  // of a buffer

size_t buffer_bytes(int64_t bytes, size_t columns) {
  const int64_t each = bytes / (static_cast<int64_t>(columns) + BlockWriter::kQueued);
  const int64_t aligned = std::min(each, kMostBytes) / kBlockAlignment * kBlockAlignment;
  return static_cast<size_t>(std::max(aligned, kBlockAlignment));
}

}  // namespace

ColumnBuffers::ColumnBuffers(const std::string& path, const std::vector<Extent>& extents,
                             size_t columns, int64_t bytes)
    : direct_(path, File::Mode::kReadWrite),
      cached_(path, File::Mode::kReadWrite),
      columns_(columns),
      writer_(direct_, buffer_bytes(bytes, columns)) {
  int64_t end = 0;
  for (const Extent& extent : extents) end = std::max(end, extent.offset + extent.bytes);
  // So the parts of a column are neighbours on the disk.
  direct_.reserve(end);
  direct_.bypass_cache();
  for (size_t c = 0; c < columns; ++c) {
    columns_[c].offset = extents[c].offset;
    columns_[c].aligned = extents[c].offset % kBlockAlignment == 0;
  }
}

void ColumnBuffers::append(size_t c, const void* data, int64_t bytes) {
  Column& column = columns_[c];
  if (!column.aligned) {  // a small one
    cached_.write(data, static_cast<size_t>(bytes), column.offset);
    column.offset += bytes;
    return;
  }
  if (!column.data) column.data = aligned_block(writer_.block_bytes());
  const auto* from = static_cast<const std::byte*>(data);
  for (auto left = static_cast<size_t>(bytes); left > 0;) {
    const size_t part = std::min(left, writer_.block_bytes() - column.used);
    std::memcpy(column.data.get() + column.used, from, part);
    column.used += part;
    from += part;
    left -= part;
    if (column.used < writer_.block_bytes()) continue;
    writer_.write(column.data, column.used, column.offset);
    column.offset += static_cast<int64_t>(column.used);
    column.used = 0;
  }
}

void ColumnBuffers::finish() {
  writer_.wait();
  for (Column& column : columns_) {
    if (column.used > 0) cached_.write(column.data.get(), column.used, column.offset);
  }
}

}  // namespace dlrm
