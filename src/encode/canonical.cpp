#include "dlrm/encode/canonical.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <system_error>

#include <fmt/format.h>

namespace dlrm {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view digits_at(std::string_view text, size_t begin) {
  size_t end = begin;
  while (end < text.size() && is_digit(text[end])) ++end;
  return text.substr(begin, end - begin);
}

bool all_zeros(std::string_view digits) {
  return digits.find_first_not_of('0') == std::string_view::npos;
}

/// A number in another spelling than its canonical one. `exponent` says whether it has one.
/// As OTHER_NUMBER of keys.py: -0, whole numbers with a point, and numbers with one digit before
/// the point and an exponent of up to three digits.
bool is_other_number(std::string_view text, bool& exponent) {
  exponent = false;
  size_t at = !text.empty() && text[0] == '-' ? 1 : 0;
  const std::string_view whole = digits_at(text, at);
  if (whole.empty() || (whole.size() > 1 && whole[0] == '0')) return false;
  at += whole.size();
  if (at == text.size()) return text == "-0";
  std::string_view fraction;
  if (text[at] == '.') {
    fraction = digits_at(text, at + 1);
    if (fraction.empty()) return false;
    at += 1 + fraction.size();
    if (at == text.size()) return all_zeros(fraction);
  }
  if (whole.size() > 1 || (text[at] != 'e' && text[at] != 'E')) return false;
  exponent = true;
  ++at;
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
  const std::string_view power = digits_at(text, at);
  if (power.empty() || at + power.size() != text.size()) return false;
  if (whole == "0") return all_zeros(fraction) && all_zeros(power);
  return power.size() <= 3;
}

/// The first character's code and bytes. `text` is UTF-8 and not empty.
uint32_t first_character(std::string_view text, size_t& size) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t first = byte(0);
  size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (size > text.size()) size = text.size();
  if (size == 1) return first;
  uint32_t code = first & (0xff >> (size + 1));
  for (size_t i = 1; i < size; ++i) code = code << 6 | (byte(i) & 0x3f);
  return code;
}

/// Unicode's categories Zs, Zl and Zp, and the controls that separate.
bool is_space(uint32_t code) {
  if (code < 0x80)
    return code == ' ' || (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x1f);
  return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
         code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

template <class Float>
std::string digits_of(Float number) {
  if (std::floor(number) == number) {
    return number == 0 ? "0" : fmt::format("{:.0f}", number);
  }
  char text[1100];  // 5e-324 has 1076 characters
  const auto end = std::to_chars(text, text + sizeof(text), number, std::chars_format::fixed).ptr;
  return {text, end};
}

bool read_digits(std::string_view text, int64_t& number) {
  if (text.starts_with("0x") || text.starts_with("0X")) {
    uint64_t bits = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, problem] = std::from_chars(text.data() + 2, end, bits, 16);
    number = static_cast<int64_t>(bits);
    return problem == std::errc() && rest == end && text.size() <= 18;
  }
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  return problem == std::errc() && rest == end;
}

}  // namespace

std::string_view canonical_text(std::string_view text, std::string& room) {
  // Most texts are no numbers in another spelling, and their first character says so.
  if (text.empty() || !(is_digit(text[0]) || text[0] == '-')) return text;
  bool exponent = false;
  if (!is_other_number(text, exponent)) return text;
  if (exponent) {
    const double number = std::strtod(std::string(text).c_str(), nullptr);  // may be 0 or infinite
    if (!std::isfinite(number)) return text;
    room = canonical_text(number);
    return room;
  }
  const std::string_view whole = text.substr(0, text.find('.'));
  return whole == "-0" ? std::string_view("0") : whole;
}

std::string canonical_text(double number) { return digits_of(number); }

std::string canonical_text(float number) { return digits_of(number); }

std::string_view trimmed(std::string_view text) {
  size_t size = 0;
  while (!text.empty() && is_space(first_character(text, size))) text.remove_prefix(size);
  while (!text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && (text[last] & 0xc0) == 0x80) --last;
    if (!is_space(first_character(text.substr(last), size))) break;
    text.remove_suffix(text.size() - last);
  }
  return text;
}

bool read_number(std::string_view text, double& number) {
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  return problem == std::errc() && rest == end;
}

bool read_integer(std::string_view text, int64_t& number) {
  if (read_digits(text, number)) return true;
  std::string room;
  return read_digits(canonical_text(text, room), number);
}

}  // namespace dlrm
