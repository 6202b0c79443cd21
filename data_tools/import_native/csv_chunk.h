#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "dlrm/core/view.h"
#include "dlrm/encode/text_table.h"

namespace dlrm {

/// What becomes of a column of a chunk. The import's Python has the same struct.
struct CsvColumn {
  enum Kind : int32_t { kSkip, kNumber, kInteger, kCode, kText, kHash };
  int32_t kind;
  int32_t missing;  ///< out: whether an integer is missing
  void* values;     ///< [records] of double, int64_t or, of a code or hash, int32_t
  uint8_t* absent;  ///< [records], of an integer: 1 where it is missing
  int64_t rows;     ///< of a hash: ids are mix64(CRC-32 of the canonical text) modulo rows
};

/// Reads records of delimited text that have no surprises: whole lines of plain numbers and UTF-8,
/// with each quote around a field. What it reads is what Arrow makes of the chunk.
class CsvChunk {
 public:
  /// `quote` -1: there are no quotes. `missing`: texts that stand for a missing number.
  CsvChunk(char delimiter, int32_t quote, View<CsvColumn> columns,
           std::vector<std::string_view> missing);

  /// Returns false if there is anything that it does not read. `text` must outlive the chunk.
  bool read(std::string_view text, int64_t records);

  /// The texts of a column: of kText all, of kCode the different ones in order of appearance.
  View<const std::string_view> texts(size_t column) const;

 private:
  static constexpr size_t kBlock = 256;  // records whose fields are in a cache together

  struct Field {
    uint32_t begin, size;
  };

  bool separate(std::string_view text);
  [[gnu::always_inline]] bool end_of_field(std::string_view text, size_t position);
  bool end_of_record(std::string_view text, size_t position);
  bool closes_quote(std::string_view text, size_t position) const;
  bool convert_block();
  bool numbers(size_t column);
  bool integers(size_t column);
  void hashes(size_t column);
  bool is_missing(std::string_view text) const;
  std::string_view field(size_t record, size_t column) const {
    const Field& field = fields_[record * columns_.size() + column];
    return {data_ + field.begin, field.size};
  }

  char delimiter_;
  int32_t quote_;
  View<CsvColumn> columns_;
  std::vector<std::string_view> missing_;
  std::array<bool, 256> begins_missing_{};
  bool empty_is_missing_ = false;
  std::vector<TextTable> tables_;
  std::vector<std::vector<std::string_view>> texts_;

  // While it reads:
  const char* data_ = nullptr;
  std::vector<Field> fields_;  // of a block of records
  std::vector<std::string_view> block_texts_;
  size_t column_ = 0, begin_ = 0, in_block_ = 0, done_ = 0, most_ = 0;
  size_t returns_ = 0;  // lines that end with \r\n
  bool quoted_ = false;
};

}  // namespace dlrm
