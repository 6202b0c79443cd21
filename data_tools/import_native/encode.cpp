// The encoding of columns for the import's Python (dlrm/importing/encoder.py). No exception leaves
// a function: those that return a pointer return null instead.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dlrm/encode/encoder.h"

namespace dlrm {
namespace {

/// What became of a column.
struct Encoded {
  EncodedColumn column;
  std::string problems;  // each with a \0 after it
};

template <class Make>
Encoded* encoded(const Make& make) try {
  auto result = std::make_unique<Encoded>();
  make(result->column);
  for (const RefusedValue& refused : result->column.refused) {
    (result->problems += refused.problem) += '\0';
  }
  return result.release();
} catch (...) {
  return nullptr;
}

const EncodedColumn& column_of(const void* encoded) {
  return static_cast<const Encoded*>(encoded)->column;
}

const Encoder& encoder_of(const void* encoder) { return *static_cast<const Encoder*>(encoder); }

}  // namespace
}  // namespace dlrm

using dlrm::ArrowColumn;
using dlrm::EncodedColumn;
using dlrm::Encoder;
using dlrm::TextTable;

extern "C" {

/// Of the bytes that a dataset carries.
void* dlrm_encoder_new(const char* bytes, int64_t size) try {
  return new Encoder(dlrm::parse_preprocessing({bytes, static_cast<size_t>(size)}, "schema"));
} catch (...) {
  return nullptr;
}

void dlrm_encoder_free(void* encoder) { delete static_cast<Encoder*>(encoder); }

/// Fills `numbers` [count] of float; with `plain` of double, before columns are standardised.
void* dlrm_encode_dense(const void* encoder, int64_t column, const ArrowColumn* values, bool plain,
                        void* numbers) {
  return dlrm::encoded([&](EncodedColumn& out) {
    const auto place = static_cast<size_t>(column);
    if (plain) {
      dlrm::encoder_of(encoder).plain_dense_column(place, *values, static_cast<double*>(numbers),
                                                   out.refused);
    } else {
      dlrm::encoder_of(encoder).dense_column(place, *values, static_cast<float*>(numbers),
                                             out.refused);
    }
  });
}

/// The bytes of `values` must outlive the result.
void* dlrm_encode_sparse(const void* encoder, int64_t feature, const ArrowColumn* values,
                         bool keys) {
  return dlrm::encoded([&](EncodedColumn& out) {
    out = dlrm::encoder_of(encoder).sparse_column(static_cast<size_t>(feature), *values, keys);
  });
}

void* dlrm_encode_numbers(const void* encoder, const ArrowColumn* values, double* numbers) {
  return dlrm::encoded([&](EncodedColumn& out) {
    dlrm::encoder_of(encoder).number_column(*values, numbers, out.refused);
  });
}

void* dlrm_encode_texts(const ArrowColumn* values) {
  return dlrm::encoded([&](EncodedColumn& out) { out = dlrm::text_column(*values); });
}

void dlrm_encoded_free(void* encoded) { delete static_cast<dlrm::Encoded*>(encoded); }

/// How many there are of ids, numbers, keys, bytes of keys, offsets, refused values, and bytes of
/// problems.
void dlrm_encoded_sizes(const void* encoded, int64_t* sizes) {
  const EncodedColumn& column = dlrm::column_of(encoded);
  size_t bytes = 0;
  for (const std::string_view key : column.keys) bytes += key.size();
  for (const size_t size :
       {column.ids.size(), column.numbers.size(), column.keys.size(), bytes, column.offsets.size(),
        column.refused.size(), static_cast<const dlrm::Encoded*>(encoded)->problems.size()}) {
    *sizes++ = static_cast<int64_t>(size);
  }
}

/// Copies what is there. `values` are the numbers, or else the ids.
void dlrm_encoded_copy(const void* encoded, void* values, int64_t* offsets, int64_t* refused,
                       char* problems) {
  const EncodedColumn& column = dlrm::column_of(encoded);
  std::copy(column.ids.begin(), column.ids.end(), static_cast<int64_t*>(values));
  std::copy(column.numbers.begin(), column.numbers.end(), static_cast<int32_t*>(values));
  std::copy(column.offsets.begin(), column.offsets.end(), offsets);
  for (const dlrm::RefusedValue& value : column.refused) *refused++ = value.record;
  const std::string& texts = static_cast<const dlrm::Encoded*>(encoded)->problems;
  std::copy(texts.begin(), texts.end(), problems);
}

/// Copies the keys as Arrow has texts.
void dlrm_encoded_keys(const void* encoded, int32_t* ends, char* bytes) {
  int32_t end = 0;
  *ends++ = 0;
  for (const std::string_view key : dlrm::column_of(encoded).keys) {
    if (!key.empty()) std::memcpy(bytes + end, key.data(), key.size());
    *ends++ = end += static_cast<int32_t>(key.size());
  }
}

/// numbers[i] = first + the number of key i in the table. Adds new keys.
bool dlrm_table_add_keys(void* table, const void* encoded, int32_t first, int32_t* numbers) try {
  static_cast<TextTable*>(table)->number_all(dlrm::column_of(encoded).keys, first, numbers);
  return true;
} catch (...) {
  return false;
}

/// The same for known keys; first - 1 for others.
bool dlrm_table_find_keys(const void* table, const void* encoded, int32_t first,
                          int32_t* numbers) try {
  static_cast<const TextTable*>(table)->find_all(dlrm::column_of(encoded).keys, first, numbers);
  return true;
} catch (...) {
  return false;
}

}  // extern "C"
