#include "csv_chunk.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>

#include "dlrm/core/hash.h"
#include "dlrm/encode/canonical.h"
#include "dlrm/encode/utf8.h"

#include "csv_number.h"
#include "csv_scan.h"

namespace dlrm {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // Arrow skips it

}  // namespace

CsvChunk::CsvChunk(char delimiter, int32_t quote, View<CsvColumn> columns,
                   std::vector<std::string_view> missing)
    : delimiter_(delimiter), quote_(quote), columns_(columns), missing_(std::move(missing)) {
  for (const std::string_view text : missing_) {
    if (text.empty()) {
      empty_is_missing_ = true;
    } else {
      begins_missing_[static_cast<uint8_t>(text.front())] = true;
    }
  }
  for (const CsvColumn& column : columns_) {
    tables_.emplace_back(false);
    texts_.emplace_back();
    (void)column;
  }
  fields_.resize(kBlock * columns_.size());
  block_texts_.resize(kBlock);
}

bool CsvChunk::read(std::string_view text, int64_t records) {
  if (delimiter_ == quote_ || text.size() > std::numeric_limits<uint32_t>::max() ||
      text.starts_with(kByteOrderMark)) {
    return false;
  }
  data_ = text.data();
  most_ = static_cast<size_t>(records);
  if (!separate(text) || column_ != 0 || begin_ != text.size() || quoted_) return false;
  return convert_block() && done_ == most_;
}

View<const std::string_view> CsvChunk::texts(size_t column) const {
  if (columns_[column].kind == CsvColumn::kCode) return tables_[column].texts();
  return texts_[column];
}

inline bool CsvChunk::end_of_field(std::string_view text, size_t position) {
  size_t begin = begin_, end = position;
  if (quote_ >= 0 && begin < end && text[begin] == static_cast<char>(quote_)) {
    ++begin;
    --end;
  }
  if (column_ == columns_.size()) return false;
  fields_[in_block_ * columns_.size() + column_] = {static_cast<uint32_t>(begin),
                                                    static_cast<uint32_t>(end - begin)};
  ++column_;
  begin_ = position + 1;
  return true;
}

bool CsvChunk::separate(std::string_view text) {
  CsvScan scan(delimiter_, quote_ < 0 ? '\n' : static_cast<char>(quote_));
  for (size_t start = 0; start < text.size(); start += CsvScan::kWidth) {
    char last[CsvScan::kWidth] = {};
    const char* at = text.data() + start;
    if (text.size() - start < CsvScan::kWidth) {
      std::memcpy(last, at, text.size() - start);
      at = last;
    }
    for (uint64_t found = scan(at); found != 0; found &= found - 1) {
      const size_t position = start + static_cast<size_t>(std::countr_zero(found));
      if (position >= text.size()) break;  // a delimiter or quote of \0 after the end
      const char c = text[position];
      if (quote_ >= 0 && c == static_cast<char>(quote_)) {
        if (quoted_ ? !closes_quote(text, position) : position != begin_) return false;
        quoted_ = !quoted_;
      } else if (quoted_) {
        if (c == '\n') return false;
      } else if (c == '\n' ? !end_of_record(text, position) : !end_of_field(text, position)) {
        return false;
      }
    }
  }
  if (scan.has_returns() &&
      static_cast<size_t>(std::count(text.begin(), text.end(), '\r')) != returns_) {
    return false;
  }
  return !scan.beyond_ascii() || is_utf8(text);
}

bool CsvChunk::end_of_record(std::string_view text, size_t position) {
  size_t end = position;
  if (end > begin_ && text[end - 1] == '\r') {
    --end;
    ++returns_;
  }
  if (column_ == 0 && end == begin_) return false;  // Arrow drops empty lines
  if (!end_of_field(text, end) || column_ != columns_.size()) return false;
  begin_ = position + 1;
  column_ = 0;
  if (++in_block_ < kBlock) return true;
  return convert_block();
}

bool CsvChunk::closes_quote(std::string_view text, size_t position) const {
  if (position + 1 >= text.size()) return false;
  const char next = text[position + 1];
  return next == delimiter_ || next == '\n' || next == '\r';
}

bool CsvChunk::convert_block() {
  if (done_ + in_block_ > most_) return false;
  for (size_t column = 0; column < columns_.size(); ++column) {
    const int32_t kind = columns_[column].kind;
    if (kind == CsvColumn::kNumber) {
      if (!numbers(column)) return false;
    } else if (kind == CsvColumn::kInteger) {
      if (!integers(column)) return false;
    } else if (kind == CsvColumn::kCode) {
      for (size_t i = 0; i < in_block_; ++i) block_texts_[i] = field(i, column);
      tables_[column].number_all({block_texts_.data(), in_block_}, 0,
                                 static_cast<int32_t*>(columns_[column].values) + done_);
    } else if (kind == CsvColumn::kHash) {
      hashes(column);
    } else if (kind == CsvColumn::kText) {
      for (size_t i = 0; i < in_block_; ++i) texts_[column].push_back(field(i, column));
    }
  }
  done_ += in_block_;
  in_block_ = 0;
  return true;
}

bool CsvChunk::numbers(size_t column) {
  auto* values = static_cast<double*>(columns_[column].values) + done_;
  for (size_t i = 0; i < in_block_; ++i) {
    const std::string_view text = field(i, column);
    if (is_missing(text)) {
      values[i] = std::numeric_limits<double>::quiet_NaN();
    } else if (!read_plain_number(text, values[i])) {
      return false;
    }
  }
  return true;
}

bool CsvChunk::integers(size_t column) {
  CsvColumn& out = columns_[column];
  auto* values = static_cast<int64_t*>(out.values) + done_;
  for (size_t i = 0; i < in_block_; ++i) {
    const std::string_view text = field(i, column);
    const bool missing = is_missing(text);
    out.absent[done_ + i] = missing;
    if (missing) {
      values[i] = 0;
      out.missing = 1;
    } else if (!read_plain_integer(text, values[i])) {
      return false;
    }
  }
  return true;
}

void CsvChunk::hashes(size_t column) {
  const auto rows = static_cast<uint64_t>(columns_[column].rows);
  auto* ids = static_cast<int32_t*>(columns_[column].values) + done_;
  std::string room;
  for (size_t i = 0; i < in_block_; ++i) {
    const std::string_view text = canonical_text(field(i, column), room);
    ids[i] = static_cast<int32_t>(mix64(crc32(text.data(), text.size())) % rows);
  }
}

bool CsvChunk::is_missing(std::string_view text) const {
  if (text.empty()) return empty_is_missing_;
  if (!begins_missing_[static_cast<uint8_t>(text.front())]) return false;
  return std::find(missing_.begin(), missing_.end(), text) != missing_.end();
}

}  // namespace dlrm
