#include "framing.h"

#include <algorithm>
#include <charconv>

namespace dlrm::serve {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

Framing refuse(const char* reason) { return {Framing::Body::kNone, 0, reason}; }

}  // namespace

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

Framing framing_of(int version, std::span<const HeaderField> fields) {
  const HeaderField* length = nullptr;
  const HeaderField* coding = nullptr;
  int hosts = 0;
  for (const HeaderField& field : fields) {
    if (same_word(field.name, "Content-Length")) {
      if (length != nullptr) return refuse("several Content-Length");
      length = &field;
    } else if (same_word(field.name, "Transfer-Encoding")) {
      if (coding != nullptr) return refuse("several Transfer-Encoding");
      coding = &field;
    } else if (same_word(field.name, "Host") && ++hosts > 1) {
      return refuse("several Host");
    }
  }
  if (coding != nullptr) {
    if (length != nullptr) return refuse("Content-Length beside Transfer-Encoding");
    if (version < 11) return refuse("Transfer-Encoding in HTTP/1.0");
    if (!same_word(coding->value, "chunked")) return refuse("a Transfer-Encoding but chunked");
    return {Framing::Body::kChunked, 0, nullptr};
  }
  if (length == nullptr) return {};
  const std::string_view digits = length->value;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  // from_chars takes no sign for an unsigned number.
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return refuse("a Content-Length that is no number");
  }
  return {Framing::Body::kLength, value, nullptr};
}

}  // namespace dlrm::serve
