#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "dlrm/core/view.h"
#include "dlrm/encode/text_table.h"

namespace dlrm {

/// Texts that are cut into items. Items of white space alone are left out.
struct TextItems {
  TextTable table{false};        // the different items; the texts must outlive it
  std::vector<int32_t> numbers;  // of all items, in the table
  std::vector<int64_t> offsets;  // [texts + 1], into numbers
};

/// Nothing if it takes Unicode's tables to tell whether an item is white space.
std::optional<TextItems> split_items(View<const std::string_view> texts,
                                     std::string_view separator);

}  // namespace dlrm
