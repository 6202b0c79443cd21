#pragma once
#include <cstddef>
#include <string>

namespace dlrm {

/// A size as messages show it: "1.50 GiB", "20.0 MiB", "512 B".
std::string shown_bytes(size_t bytes);

}  // namespace dlrm
