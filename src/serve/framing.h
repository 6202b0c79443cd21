#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace dlrm::serve {

struct HeaderField {
  std::string_view name, value;
};

/// Where the body of a request ends.
struct Framing {
  enum class Body { kNone, kLength, kChunked };
  Body body = Body::kNone;
  uint64_t length = 0;
  const char* refused = nullptr;  ///< why the end is not certain; null: it is
};

/// The framing by RFC 9112, section 6, without its leniencies. A request is refused if two readers
/// could differ on its end. `version` is 10 or 11.
Framing framing_of(int version, std::span<const HeaderField> fields);

/// True if the texts are the same but for the case of ASCII letters.
bool same_word(std::string_view a, std::string_view b);

}  // namespace dlrm::serve
