#pragma once
#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace dlrm {
namespace csv_number {

// Powers of ten that a double holds exactly.
inline constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
inline constexpr uint64_t kExact = uint64_t{1} << 53;  // whole numbers up to this are doubles
inline constexpr int64_t kMostDigits = 19;             // of a number below 2⁶⁴

inline const char* read_digits(const char* at, const char* end, uint64_t& digits) {
  for (; at != end; ++at) {
    const auto digit = static_cast<uint8_t>(*at - '0');
    if (digit > 9) break;
    digits = digits * 10 + digit;
  }
  return at;
}

}  // namespace csv_number

/// Reads the plain numbers that are in most logs: -12, 3.5, 1e-3. Returns false for every other
/// text, also for some that are numbers. What is read is what Arrow reads, correctly rounded.
inline bool read_plain_number(std::string_view text, double& value) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const bool negative = at != end && *at == '-';
  at += negative;
  uint64_t digits = 0;
  const char* const whole = at;
  at = csv_number::read_digits(at, end, digits);
  int64_t count = at - whole, fraction = 0;
  if (count == 0) return false;
  if (at != end && *at == '.') {
    const char* const point = ++at;
    at = csv_number::read_digits(at, end, digits);
    fraction = at - point;
    if (fraction == 0) return false;
    count += fraction;
  }
  if (at == end && count <= csv_number::kMostDigits && digits <= csv_number::kExact) {
    // The quotient of two exact doubles is correctly rounded.
    const double size = static_cast<double>(digits) / csv_number::kPowers[fraction];
    value = negative ? -size : size;
    return true;
  }
  if (at != end && *at != 'e' && *at != 'E') return false;
  const auto [rest, problem] = std::from_chars(text.data(), end, value);
  return problem == std::errc() && rest == end;
}

/// An integer of up to 18 digits without leading zeros.
inline bool read_plain_integer(std::string_view text, int64_t& value) {
  const char* at = text.data();
  const char* const end = at + text.size();
  const bool negative = at != end && *at == '-';
  at += negative;
  const int64_t count = end - at;
  if (count == 0 || count > 18 || (*at == '0' && text.size() > 1)) return false;
  uint64_t digits = 0;
  if (csv_number::read_digits(at, end, digits) != end) return false;
  value = negative ? -static_cast<int64_t>(digits) : static_cast<int64_t>(digits);
  return true;
}

/// Whether a text is a number whose canonical text is another one, as OTHER_NUMBER of
/// dlrm/dataset/keys.py has it: 12.0 and 1.2e1 are 12. Also true for some texts that are none.
inline bool is_other_number(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  if (at != end && *at == '-') ++at;
  uint64_t digits = 0;
  const char* const whole = at;
  at = csv_number::read_digits(at, end, digits);
  if (at == whole) return false;
  if (at == end) return text == "-0";
  if (*at == 'e' || *at == 'E') return at - whole == 1;
  if (*at != '.') return false;
  const char* const last = csv_number::read_digits(at + 1, end, digits);
  if (last != end) return at - whole == 1 && (*last == 'e' || *last == 'E');
  return last != at + 1 &&
         std::string_view(at + 1, last).find_first_not_of('0') == std::string_view::npos;
}

}  // namespace dlrm
