#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlrm/data/category_value.h"
#include "dlrm/data/text_chunks.h"

namespace dlrm {

constexpr size_t kCriteoNumbers = 13;
constexpr size_t kCriteoCategories = 26;
constexpr size_t kCriteoFields = 1 + kCriteoNumbers + kCriteoCategories;

/// "C1" ... "C26".
std::string criteo_feature_name(size_t feature);

/// The rows of one chunk, column by column.
struct CriteoBlock {
  struct Malformed {
    int64_t line;  ///< within the chunk, from 1
    std::string reason;
  };

  size_t file = 0;
  int64_t lines = 0;
  int64_t rows = 0;  ///< lines that are not malformed; vectors may be longer
  std::vector<float> labels;
  std::vector<float> dense;  ///< [rows, 13]: log(x + 1); 0 if missing or x < 0
  std::array<std::vector<CategoryValue>, kCriteoCategories> values;
  std::array<std::vector<int32_t>, kCriteoCategories> ids;  ///< filled by a later stage
  std::optional<Malformed> malformed;                       ///< the first malformed line

  int64_t skipped() const { return lines - rows; }
};

/// Parses every line of `chunk`: label 0 or 1, 13 numbers or nothing, 26 categories of up to 8
/// hexadecimal digits or nothing, separated by tabs. A line may end in "\r\n". Malformed lines are
/// left out, and the first one is reported.
void parse_criteo(const TextChunk& chunk, CriteoBlock& block);

/// Describes the error in a line, which is passed without its end. Empty if the line is valid.
std::string explain_criteo_line(std::string_view line);

}  // namespace dlrm
