#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace dlrm {

/// The canonical text of a value that is a category, so that one value has one id whatever its type
/// and spelling (docs/import.md, "The schema"). python/dlrm/dataset/keys.py is the same.
/// Of a text it is the text itself, or `room`, which then holds another spelling of the number.
std::string_view canonical_text(std::string_view text, std::string& room);

/// Of a float that is finite: its digits if it is whole, otherwise its shortest digits without an
/// exponent.
std::string canonical_text(double number);
std::string canonical_text(float number);

/// Without white space of Unicode at both ends.
std::string_view trimmed(std::string_view text);

/// The number that a text is as a whole: digits with a point and an exponent, inf or nan. False if
/// it is none, or is none of a double.
bool read_number(std::string_view text, double& number);

/// The whole number of 64 bits that a text is as a whole, also as 12.0, 1.2e1 or 0xc. False if it
/// is none.
bool read_integer(std::string_view text, int64_t& number);

}  // namespace dlrm
