#pragma once
#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace dlrm {

/// Finds in 64 bytes at a time the delimiters, line ends and quotes.
class CsvScan {
 public:
  static constexpr size_t kWidth = 64;

  CsvScan(char delimiter, char quote) : delimiter_(delimiter), quote_(quote) {}

  /// Bit i: byte i is one of them.
  uint64_t operator()(const char* at) {
    uint64_t found = 0;
#if defined(__SSE2__)
    for (size_t part = 0; part < kWidth; part += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + part));
      const __m128i hit =
          _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(delimiter_)),
                                    _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n'))),
                       _mm_cmpeq_epi8(bytes, _mm_set1_epi8(quote_)));
      found |= uint64_t{static_cast<uint32_t>(_mm_movemask_epi8(hit))} << part;
      high_ |= _mm_movemask_epi8(bytes);
      returns_ |= _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\r')));
    }
#else
    for (size_t i = 0; i < kWidth; ++i) {
      found |= uint64_t{at[i] == delimiter_ || at[i] == '\n' || at[i] == quote_} << i;
      high_ |= at[i] & 0x80;
      returns_ |= at[i] == '\r';
    }
#endif
    return found;
  }

  /// Whether a byte that was passed is not ASCII, or is \r.
  bool beyond_ascii() const { return high_ != 0; }
  bool has_returns() const { return returns_ != 0; }

 private:
  char delimiter_, quote_;
  int high_ = 0, returns_ = 0;
};

}  // namespace dlrm
