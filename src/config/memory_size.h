#pragma once
#include <optional>
#include <string_view>

namespace dlrm {

/// A size as the config writes it: 64MiB, 1.5GiB, 10%.
struct MemorySize {
  double amount = 0;  ///< bytes, or the share of a whole
  bool is_share = false;
};

/// Nothing where `text` is no size above 0; a share is 100% at most.
std::optional<MemorySize> parsed_size(std::string_view text);

}  // namespace dlrm
