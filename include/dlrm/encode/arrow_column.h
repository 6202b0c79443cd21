#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dlrm/encode/text_table.h"

namespace dlrm {

/// The values of some records in one column, laid out as Arrow does. The import's Python has the
/// same struct.
struct ArrowColumn {
  enum Kind : int32_t { kMissing, kBool, kInteger, kFloat, kDouble, kText };

  int64_t count = 0;               ///< places of values: one of each record, or all items of lists
  int64_t records = 0;             ///< of lists
  const void* values = nullptr;    ///< of uint8_t, int64_t, float or double
  const int32_t* ends = nullptr;   ///< value i of kText is bytes[ends[i]] to bytes[ends[i + 1] - 1]
  const char* bytes = nullptr;     ///< UTF-8
  const uint8_t* there = nullptr;  ///< [count] 0: missing; null: none is
  const int32_t* codes = nullptr;  ///< [count] which value each place has; null: its own
  const int64_t* lists = nullptr;  ///< [records + 1] where each list begins; null: no lists
  int64_t coded = 0;               ///< with `codes`: how many values there are
  Kind kind = kMissing;
};

/// A value of a column that cannot be used.
struct RefusedValue {
  int64_t record;
  std::string problem;  ///< as an Encoder says it: "'abc' is not a number"
};

/// A feature of some records: ids, or with a dictionary, numbers of keys that have ids.
struct EncodedColumn {
  std::vector<int64_t> ids;
  std::vector<int32_t> numbers;        ///< in `keys`; -1 where a value is refused
  std::vector<std::string_view> keys;  ///< as a dictionary has them; one may be there twice
  std::vector<int64_t> offsets;        ///< [records + 1] of bags; empty: one value of each record
  std::vector<RefusedValue> refused;
  TextTable own{true};  ///< of keys
};

}  // namespace dlrm
