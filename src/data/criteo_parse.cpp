#include "dlrm/data/criteo_parse.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

constexpr uint8_t kNoDigit = 0xff;
constexpr size_t kLongestCategory = 8;  // 32 bits
// A label, a tab before each other field, and the line's end.
constexpr int64_t kShortestLine = 1 + (kCriteoFields - 1) + 1;

constexpr std::array<uint8_t, 256> make_hex_digits() {
  std::array<uint8_t, 256> digits{};
  digits.fill(kNoDigit);
  for (uint8_t i = 0; i < 10; ++i) digits['0' + i] = i;
  for (uint8_t i = 0; i < 6; ++i) {
    digits['a' + i] = static_cast<uint8_t>(10 + i);
    digits['A' + i] = static_cast<uint8_t>(10 + i);
  }
  return digits;
}
constexpr std::array<uint8_t, 256> kHexDigits = make_hex_digits();

uint8_t hex_digit(char c) { return kHexDigits[static_cast<uint8_t>(c)]; }

float dense_value(double x) { return x < 0 ? 0.0f : static_cast<float>(std::log1p(x)); }

/// dense_value of small integers, which are the most frequent numbers of a log.
class SmallLogs {
 public:
  static constexpr uint64_t kCount = 8192;
  SmallLogs() {
    for (size_t i = 0; i < kCount; ++i) values_[i] = dense_value(static_cast<double>(i));
  }
  float operator[](uint64_t i) const { return values_[i]; }

 private:
  std::array<float, kCount> values_;
};
const SmallLogs kSmallLogs;

/// Parses a finite number that std::from_chars reads as a whole.
bool parse_real(const char* begin, const char* end, double& x) {
  const auto [rest, fault] = std::from_chars(begin, end, x);
  return fault == std::errc() && rest == end && std::isfinite(x);
}

/// Reads a number up to the next tab. `at` moves past the tab. Every line ends in '\n', which stops
/// the scan.
bool parse_number(const char*& at, float& out) {
  const char* begin = at;
  if (*at == '\t') {
    ++at;
    out = 0;
    return true;
  }
  const bool negative = *at == '-';
  if (negative) ++at;
  const char* digits = at;
  uint64_t x = 0;
  for (; *at >= '0' && *at <= '9'; ++at) x = x * 10 + static_cast<uint64_t>(*at - '0');
  const auto count = at - digits;
  if (*at == '\t' && count > 0 && count <= 18) {
    ++at;
    out = negative                ? 0.0f
          : x < SmallLogs::kCount ? kSmallLogs[x]
                                  : dense_value(static_cast<double>(x));
    return true;
  }
  while (*at != '\t' && *at != '\n') ++at;
  double real = 0;
  if (*at != '\t' || !parse_real(begin, at, real)) return false;
  ++at;
  out = dense_value(real);
  return true;
}

/// Reads a category up to the first byte that is not a hexadecimal digit. The caller checks that
/// byte.
bool parse_category(const char*& at, CategoryValue& out) {
  const char* begin = at;
  uint64_t value = 0;
  for (uint8_t digit = hex_digit(*at); digit != kNoDigit; digit = hex_digit(*++at)) {
    value = value << 4 | digit;
  }
  const auto count = static_cast<size_t>(at - begin);
  out = count == 0 ? kMissingValue : value;
  return count <= kLongestCategory;
}

/// Parses the line at `at` into row `row`. Returns false if it is malformed. In that case `at`
/// stays within the line; otherwise it moves past the line's end.
bool parse_line(const char*& at, size_t row, CriteoBlock& block) {
  if ((*at != '0' && *at != '1') || at[1] != '\t') return false;
  block.labels[row] = *at == '1' ? 1.0f : 0.0f;
  at += 2;
  float* dense = &block.dense[row * kCriteoNumbers];
  for (size_t i = 0; i < kCriteoNumbers; ++i) {
    if (!parse_number(at, dense[i])) return false;
  }
  for (size_t f = 0; f + 1 < kCriteoCategories; ++f) {
    if (!parse_category(at, block.values[f][row]) || *at != '\t') return false;
    ++at;
  }
  if (!parse_category(at, block.values[kCriteoCategories - 1][row])) return false;
  if (*at == '\r') ++at;
  if (*at != '\n') return false;
  ++at;
  return true;
}

/// A field as an error shows it: short, and without control characters.
std::string shown(std::string_view field) {
  constexpr size_t kLongest = 24;
  std::string text(field.substr(0, kLongest));
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return field.size() > kLongest ? text + "..." : text;
}

bool is_category(std::string_view field) {
  return field.size() <= kLongestCategory &&
         std::all_of(field.begin(), field.end(), [](char c) { return hex_digit(c) != kNoDigit; });
}

std::vector<std::string_view> split_fields(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const size_t tab = line.find('\t');
    fields.push_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return fields;
    line.remove_prefix(tab + 1);
  }
}

void resize_block(CriteoBlock& block, size_t rows) {
  if (block.labels.size() >= rows) return;
  block.labels.resize(rows);
  block.dense.resize(rows * kCriteoNumbers);
  for (auto& values : block.values) values.resize(rows);
  for (auto& ids : block.ids) ids.resize(rows);
}

}  // namespace

std::string criteo_feature_name(size_t feature) { return fmt::format("C{}", feature + 1); }

std::string explain_criteo_line(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  // Counted first: a line may have millions.
  const auto count = std::count(line.begin(), line.end(), '\t') + 1;
  if (count != static_cast<std::ptrdiff_t>(kCriteoFields)) {
    return fmt::format("{} field{}; expected {}: a label, {} numbers, {} categories, tabs between",
                       count, count == 1 ? "" : "s", kCriteoFields, kCriteoNumbers,
                       kCriteoCategories);
  }
  const std::vector<std::string_view> fields = split_fields(line);
  if (fields[0] != "0" && fields[0] != "1") {
    return fmt::format("label '{}'; expected 0 or 1", shown(fields[0]));
  }
  for (size_t i = 0; i < kCriteoNumbers; ++i) {
    const std::string_view field = fields[1 + i];
    double x = 0;
    if (field.empty() || parse_real(field.data(), field.data() + field.size(), x)) continue;
    return fmt::format("I{} is '{}'; expected a number or nothing", i + 1, shown(field));
  }
  for (size_t f = 0; f < kCriteoCategories; ++f) {
    const std::string_view field = fields[1 + kCriteoNumbers + f];
    if (is_category(field)) continue;
    return fmt::format("C{} is '{}'; expected up to {} hexadecimal digits or nothing", f + 1,
                       shown(field), kLongestCategory);
  }
  return {};
}

void parse_criteo(const TextChunk& chunk, CriteoBlock& block) {
  block.file = chunk.file;
  block.lines = std::count(chunk.begin(), chunk.end(), '\n');
  block.rows = 0;
  block.malformed.reset();
  // A chunk may have millions of empty lines, but only so many that are well-formed. One more row
  // is written to by a line that turns out to be malformed.
  const int64_t most_rows = std::min(block.lines, chunk.size / kShortestLine + 1);
  resize_block(block, static_cast<size_t>(most_rows));

  const char* at = chunk.begin();
  for (int64_t line = 1; at < chunk.end(); ++line) {
    const char* begin = at;
    if (parse_line(at, static_cast<size_t>(block.rows), block)) {
      ++block.rows;
      continue;
    }
    const auto rest = static_cast<size_t>(chunk.end() - begin);
    const char* end = static_cast<const char*>(std::memchr(begin, '\n', rest));
    at = end + 1;
    if (block.malformed) continue;
    std::string reason = explain_criteo_line({begin, static_cast<size_t>(end - begin)});
    DLRM_CHECK(!reason.empty(), "line {} of a chunk is refused for no reason", line);
    block.malformed = CriteoBlock::Malformed{line, std::move(reason)};
  }
}

}  // namespace dlrm
