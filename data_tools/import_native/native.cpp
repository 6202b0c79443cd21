// What the import's Python calls (dlrm/importing/native.py). No exception leaves a function: those
// that return a pointer or bool return null or false instead.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "dlrm/core/hash.h"
#include "dlrm/encode/text_table.h"

#include "csv_chunk.h"

namespace dlrm {
namespace {

/// Texts as Arrow has them: text i has the bytes offsets[i] to offsets[i + 1] of data.
std::vector<std::string_view> views(const int32_t* offsets, const char* data, int64_t count) {
  std::vector<std::string_view> result(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    result[static_cast<size_t>(i)] = {data + offsets[i],
                                      static_cast<size_t>(offsets[i + 1] - offsets[i])};
  }
  return result;
}

int64_t bytes_of(View<const std::string_view> texts) {
  int64_t bytes = 0;
  for (const std::string_view text : texts) bytes += static_cast<int64_t>(text.size());
  return bytes;
}

template <class Offset>
void copy(View<const std::string_view> texts, Offset* offsets, char* data) {
  Offset end = 0;
  *offsets++ = 0;
  for (const std::string_view text : texts) {
    if (!text.empty()) std::memcpy(data + end, text.data(), text.size());
    end += static_cast<Offset>(text.size());
    *offsets++ = end;
  }
}

}  // namespace
}  // namespace dlrm

using dlrm::CsvChunk;
using dlrm::CsvColumn;
using dlrm::TextTable;

extern "C" {

/// Changes with these functions.
int32_t dlrm_import_version() { return 4; }

int64_t dlrm_count_lines(const char* text, int64_t size) {
  return std::count(text, text + size, '\n');
}

/// Null if the chunk is not plain. `missing` has `missing_count` texts, each with a \0 after it.
void* dlrm_csv_read(const char* text, int64_t size, int64_t records, char delimiter, int32_t quote,
                    CsvColumn* columns, int64_t column_count, const char* missing,
                    int64_t missing_count) try {
  std::vector<std::string_view> texts;
  for (int64_t i = 0; i < missing_count; ++i) {
    texts.emplace_back(missing);
    missing += texts.back().size() + 1;
  }
  auto chunk = std::make_unique<CsvChunk>(
      delimiter, quote, dlrm::View<CsvColumn>(columns, static_cast<size_t>(column_count)),
      std::move(texts));
  const bool whole = chunk->read({text, static_cast<size_t>(size)}, records);
  return whole ? chunk.release() : nullptr;
} catch (...) {
  return nullptr;
}

void dlrm_csv_free(void* chunk) { delete static_cast<CsvChunk*>(chunk); }

/// The number of texts of a column, and their bytes together.
int64_t dlrm_csv_count(const void* chunk, int64_t column) {
  return std::ssize(static_cast<const CsvChunk*>(chunk)->texts(static_cast<size_t>(column)));
}

int64_t dlrm_csv_bytes(const void* chunk, int64_t column) {
  return dlrm::bytes_of(static_cast<const CsvChunk*>(chunk)->texts(static_cast<size_t>(column)));
}

void dlrm_csv_copy(const void* chunk, int64_t column, int32_t* offsets, char* data) {
  dlrm::copy(static_cast<const CsvChunk*>(chunk)->texts(static_cast<size_t>(column)), offsets,
             data);
}

/// With `copies` 0 the texts that are added must outlive the table.
void* dlrm_table_new(int32_t copies) try { return new TextTable(copies != 0); } catch (...) {
  return nullptr;
}

void dlrm_table_free(void* table) { delete static_cast<TextTable*>(table); }

/// numbers[i] = first + the number of text i in the table. Adds new texts.
bool dlrm_table_add(void* table, const int32_t* offsets, const char* data, int64_t count,
                    int32_t first, int32_t* numbers) try {
  static_cast<TextTable*>(table)->number_all(dlrm::views(offsets, data, count), first, numbers);
  return true;
} catch (...) {
  return false;
}

/// The same for known texts; first - 1 for others.
bool dlrm_table_find(const void* table, const int32_t* offsets, const char* data, int64_t count,
                     int32_t first, int32_t* numbers) try {
  static_cast<const TextTable*>(table)->find_all(dlrm::views(offsets, data, count), first, numbers);
  return true;
} catch (...) {
  return false;
}

int64_t dlrm_table_count(const void* table) { return static_cast<const TextTable*>(table)->size(); }

int64_t dlrm_table_bytes(const void* table) {
  return dlrm::bytes_of(static_cast<const TextTable*>(table)->texts());
}

void dlrm_table_copy(const void* table, int64_t* offsets, char* data) {
  dlrm::copy(static_cast<const TextTable*>(table)->texts(), offsets, data);
}

void dlrm_crc32s(const int32_t* offsets, const char* data, int64_t count, uint64_t* sums) {
  for (int64_t i = 0; i < count; ++i) {
    sums[i] = dlrm::crc32(data + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i]));
  }
}

}  // extern "C"
