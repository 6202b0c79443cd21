#pragma once
#include <optional>
#include <string_view>

namespace dlrm {

/// A size in a config or an option: 64MiB, 1.5GiB, 10%.
struct MemorySize {
  double amount = 0;  ///< bytes, or the share of a whole
  bool is_share = false;
};

/// Returns no value if `text` is not a size above 0. A share is at most 100%.
std::optional<MemorySize> parsed_size(std::string_view text);

}  // namespace dlrm
