#include "record_lines_file.h"

#include "dlrm/core/error.h"

#include "parquet/parquet_records.h"

namespace dlrm {

RecordLinesFile::RecordLinesFile(const std::string& path, const RecordFormat& format,
                                 const Columns& columns, const std::vector<std::string>& needed,
                                 int64_t kept)
    : text_(path, kept), lines_(format, columns, needed) {
  if (!lines_.needs_header()) return;
  TextChunk chunk;
  text_.read(0, 1, chunk);
  try {
    lines_.take_header({chunk.begin(), static_cast<size_t>(chunk.size) - 1});
  } catch (const Error& error) {
    throw usage_error("{}:1: {}", path, error.what());
  }
  header_ = 1;
}

void RecordLinesFile::append(int64_t first, int64_t last, Records& records) const {
  TextChunk chunk;
  text_.read(first + header_, last + header_, chunk);
  std::string_view rest(chunk.begin(), static_cast<size_t>(chunk.size));
  for (; first < last; ++first) {
    const size_t end = rest.find('\n');
    try {
      lines_.append(rest.substr(0, end), records);
    } catch (const Error& error) {
      throw usage_error("{}: {}", where(first), error.what());
    }
    rest.remove_prefix(end + 1);
  }
}

std::string RecordLinesFile::where(int64_t record) const {
  return fmt::format("{}:{}", text_.path(), record + header_ + 1);
}

std::unique_ptr<RecordFile> open_record_file(const std::string& path, const RecordFormat& format,
                                             const Columns& columns,
                                             const std::vector<std::string>& needed, int64_t kept) {
  if (format.kind == RecordFormat::Kind::kParquet) {
    return std::make_unique<ParquetRecords>(path, columns, needed, kept);
  }
  return std::make_unique<RecordLinesFile>(path, format, columns, needed, kept);
}

}  // namespace dlrm
