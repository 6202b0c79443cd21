#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace dlrm {

/// Whether one of the bytes is below 0x20 or 0x7f (DEL). Such text would break a line of a log.
bool has_control_character(std::string_view text);

/// At most `longest` bytes of `text`, with control characters replaced by `?`, for one line of an
/// error. `...` follows text that was cut.
std::string printable(std::string_view text, size_t longest);

}  // namespace dlrm
