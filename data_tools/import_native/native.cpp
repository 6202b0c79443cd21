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
#include "csv_number.h"
#include "text_items.h"

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
using dlrm::TextItems;
using dlrm::TextTable;

extern "C" {

/// Changes with these functions.
int32_t dlrm_import_version() { return 3; }

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

/// Cuts texts, which must outlive the result, into items. Null if that takes Unicode's tables.
void* dlrm_items_new(const int32_t* offsets, const char* data, int64_t count, const char* separator,
                     int64_t separator_size) try {
  auto items = dlrm::split_items(dlrm::views(offsets, data, count),
                                 {separator, static_cast<size_t>(separator_size)});
  return items ? new TextItems(std::move(*items)) : nullptr;
} catch (...) {
  return nullptr;
}

void dlrm_items_free(void* items) { delete static_cast<TextItems*>(items); }

int64_t dlrm_items_count(const void* items) {
  return std::ssize(static_cast<const TextItems*>(items)->numbers);
}

/// The table of the different items, which belongs to `items`.
const void* dlrm_items_table(const void* items) {
  return &static_cast<const TextItems*>(items)->table;
}

void dlrm_items_copy(const void* items, int32_t* numbers, int64_t* offsets) {
  const auto& from = *static_cast<const TextItems*>(items);
  std::copy(from.numbers.begin(), from.numbers.end(), numbers);
  std::copy(from.offsets.begin(), from.offsets.end(), offsets);
}

/// Numbers the codes that appear from 0 in the order of first appearance: numbers[i] is that of
/// codes[i], and used[n] the code with number n. Returns how many there are; -1 if a code is not
/// from 0 to values - 1.
int64_t dlrm_renumber(const int32_t* codes, int64_t count, int64_t values, int32_t* numbers,
                      int32_t* used) try {
  std::vector<int32_t> number_of(static_cast<size_t>(values), -1);
  int32_t next = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (codes[i] < 0 || codes[i] >= values) return -1;
    int32_t& number = number_of[static_cast<size_t>(codes[i])];
    if (number < 0) {
      used[next] = codes[i];
      number = next++;
    }
    numbers[i] = number;
  }
  return next;
} catch (...) {
  return -1;
}

void dlrm_crc32s(const int32_t* offsets, const char* data, int64_t count, uint64_t* sums) {
  for (int64_t i = 0; i < count; ++i) {
    sums[i] = dlrm::crc32(data + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i]));
  }
}

/// ids[i] = mix64(CRC-32 of text i) modulo rows. False if a text is a number in another spelling.
bool dlrm_hash(const int32_t* offsets, const char* data, int64_t count, int64_t rows,
               int32_t* ids) {
  for (int64_t i = 0; i < count; ++i) {
    const auto size = static_cast<size_t>(offsets[i + 1] - offsets[i]);
    if (dlrm::is_other_number({data + offsets[i], size})) return false;
    const uint64_t sum = dlrm::crc32(data + offsets[i], size);
    ids[i] = static_cast<int32_t>(dlrm::mix64(sum) % static_cast<uint64_t>(rows));
  }
  return true;
}

}  // extern "C"
