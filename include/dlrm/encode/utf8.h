#pragma once
#include <string_view>

namespace dlrm {

/// Whether the bytes are UTF-8 (RFC 3629).
bool is_utf8(std::string_view bytes);

}  // namespace dlrm
